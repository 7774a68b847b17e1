// Looks for new mail while the page is visible, and exchanges the list only when it changed.
const intervalMs = 2000;

async function look() {
  if (document.visibilityState !== "visible") return;
  let html;
  try {
    const answer = await fetch("/", { cache: "no-store" });
    if (!answer.ok) return;
    html = await answer.text();
  } catch {
    return; // The server is away; the next look may find it again.
  }
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const before = document.getElementById("live");
  const after = fresh.getElementById("live");
  if (!before || !after || before.innerHTML === after.innerHTML) return;
  const focused = document.activeElement?.id;
  before.innerHTML = after.innerHTML;
  document.title = fresh.title;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

setInterval(look, intervalMs);
document.addEventListener("visibilitychange", look);
