// Points the provider's official client at the provider model, and the official verifier at its delivery news: what
// they accept from the model is what they accept from the provider.
//
// Run it in the folder that holds node_modules. With RESEND_BASE_URL it uses a model that runs already, and resets it;
// without, it starts its own from SEALPOST_BIN, or from the command that was built last.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, beforeEach, test } from "node:test";

import { sealpostCommand } from "../../scripts/lib/paths.mjs";

const packages = createRequire(join(process.cwd(), "package.json"));
// Svix's published example; it guards nothing.
const webhookSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

let baseUrl = process.env.RESEND_BASE_URL;
let child;
let Resend;
let Webhook;

before(async () => {
  baseUrl ??= await startModel();
  // The client reads its address once, when it is loaded.
  process.env.RESEND_BASE_URL = baseUrl;
  ({ Resend } = packages("resend"));
  ({ Webhook } = packages("svix"));
});

after(() => child?.kill());

beforeEach(async () => {
  await control("POST", "/_/reset");
  await control("POST", "/_/rate", { perSecond: 0 });
});

async function startModel() {
  const binary = process.env.SEALPOST_BIN ?? sealpostCommand;
  child = spawn(binary, ["provider", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`${binary} ended with code ${code} before it listened`);
  });
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), ended]);
  const url = /http:\/\/\S+/.exec(line)?.[0];
  assert.ok(url, `no address in: ${line}`);
  return url;
}

async function control(method, path, body) {
  const answer = await fetch(baseUrl + path, { method, body: body && JSON.stringify(body) });
  const text = await answer.text();
  assert.equal(answer.status, 200, `${path}: ${text}`);
  return JSON.parse(text);
}

const client = (key = "re_test") => new Resend(key);

const mail = (changes = {}) => ({
  from: "Shop <shop@mail.acme.test>",
  to: ["ada@example.com"],
  subject: "Your order",
  html: "<p>Thank you.</p>",
  tags: [{ name: "outbox_id", value: "ord_1" }],
  ...changes,
});

/** The name and status of the error of a send; it must be one. */
async function errorOf(changes, key, options) {
  const { data, error } = await client(key).emails.send(mail(changes), options);
  assert.equal(data, null);
  return [error.statusCode, error.name];
}

test("a replay under the same key gives the first id and sends nothing", async () => {
  const first = await client().emails.send(mail(), { idempotencyKey: "order/1" });
  assert.equal(first.error, null);
  assert.match(first.data.id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const again = await client().emails.send(mail(), { idempotencyKey: "order/1" });
  assert.equal(again.data.id, first.data.id);
  const accepted = await control("GET", "/_/accepted");
  assert.deepEqual(accepted.map((one) => [one.id, one.idempotencyKey]), [[first.data.id, "order/1"]]);
});

test("another body under the same key is refused", async () => {
  await client().emails.send(mail(), { idempotencyKey: "order/1" });
  const refused = await errorOf({ subject: "Another" }, undefined, { idempotencyKey: "order/1" });
  assert.deepEqual(refused, [409, "invalid_idempotent_request"]);
});

test("a list of mails goes out in one call, under one key, all or nothing", async () => {
  const mails = ["ada", "bob"].map((name) => mail({ to: [`${name}@example.com`] }));
  const first = await client().batch.send(mails, { idempotencyKey: "campaign/1" });
  assert.equal(first.error, null);
  const ids = first.data.data.map((one) => one.id);
  assert.equal(new Set(ids).size, 2);
  const again = await client().batch.send(mails, { idempotencyKey: "campaign/1" });
  assert.deepEqual(again.data, first.data);
  const accepted = await control("GET", "/_/accepted");
  assert.deepEqual(accepted.map((one) => [one.id, one.to]), ids.map((id, at) => [id, mails[at].to]));
  const { data: bob } = await client().emails.get(ids[1]);
  assert.deepEqual(bob.tags, [{ name: "outbox_id", value: "ord_1" }]);

  const other = await client().batch.send(mails.slice(1), { idempotencyKey: "campaign/1" });
  assert.equal(other.error.name, "invalid_idempotent_request");
  const wrong = [mails[0], mail({ to: ["nobody"] })];
  const strict = await client().batch.send(wrong, { idempotencyKey: "campaign/2" });
  assert.deepEqual([strict.error.statusCode, strict.error.name], [422, "validation_error"]);
  assert.equal((await control("GET", "/_/accepted")).length, 2);
  const permissive = await client().batch.send(wrong, { idempotencyKey: "campaign/3", batchValidation: "permissive" });
  assert.equal(permissive.error, null);
  assert.equal(permissive.data.data.length, 1);
  assert.deepEqual(permissive.data.errors.map((one) => one.index), [1]);
});

test("one mail is read back whole, and the list has pages", async () => {
  const ids = [];
  for (const subject of ["a", "b", "c"]) {
    ids.push((await client().emails.send(mail({ subject }))).data.id);
  }
  const { data: one } = await client().emails.get(ids[0]);
  assert.equal(one.subject, "a");
  assert.equal(one.last_event, "sent");
  assert.deepEqual(one.tags, [{ name: "outbox_id", value: "ord_1" }]);
  const { data: newest } = await client().emails.list({ limit: 2 });
  assert.deepEqual([newest.data.map((found) => found.id), newest.has_more], [[ids[2], ids[1]], true]);
  const { data: rest } = await client().emails.list({ limit: 2, after: ids[1] });
  assert.deepEqual([rest.data.map((found) => found.id), rest.has_more], [[ids[0]], false]);
});

test("attachments arrive as the client sends them, and the inbox names them", async () => {
  const attachments = [
    { filename: "a.pdf", content: Buffer.from("ABC"), contentType: "application/pdf" },
    { filename: "b.csv", content: "QUJD" },
  ];
  const { data, error } = await client().emails.send(mail({ attachments }));
  assert.equal(error, null);
  const [sent] = await control("GET", "/_/accepted");
  const sha256 = "b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df78";
  assert.deepEqual(sent.attachments, [
    { filename: "a.pdf", contentType: "application/pdf", bytes: 3, sha256 },
    { filename: "b.csv", contentType: null, bytes: 3, sha256 },
  ]);
  const page = await (await fetch(`${baseUrl}/inbox/${data.id}`)).text();
  assert.match(page, /a\.pdf \(3 bytes\), b\.csv \(3 bytes\)/);
  for (const wrong of [{ filename: "a.exe", content: "QUJD" }, { filename: "a.pdf", content: "no base64" }, { filename: "a.pdf" }]) {
    assert.deepEqual(await errorOf({ attachments: [wrong] }), [422, "invalid_attachment"], JSON.stringify(wrong));
  }
});

test("the client maps the model's errors", async () => {
  assert.deepEqual(await errorOf({}, "re_invalid_1"), [401, "validation_error"]);
  assert.deepEqual(await errorOf({ from: "nobody" }), [422, "invalid_from_address"]);
  assert.deepEqual(await errorOf({ to: [] }), [422, "missing_required_field"]);
  assert.deepEqual(await errorOf({ tags: [{ name: "a.b", value: "c" }] }), [422, "validation_error"]);
  assert.deepEqual(await errorOf({}, undefined, { idempotencyKey: "k".repeat(257) }), [400, "invalid_idempotency_key"]);
  const read = await client("re_sending_1").emails.get("some-id");
  assert.deepEqual([read.error.statusCode, read.error.name], [401, "restricted_api_key"]);
  const absent = await client().emails.get("some-id");
  assert.deepEqual([absent.error.statusCode, absent.error.name], [404, "not_found"]);
});

test("the client maps the model's faults", async () => {
  const expected = [
    ["daily_quota", 429, "daily_quota_exceeded"],
    ["monthly_quota", 429, "monthly_quota_exceeded"],
    ["in_progress", 409, "concurrent_idempotent_requests"],
    ["unverified_domain", 403, "validation_error"],
    ["internal_error", 500, "internal_server_error"],
    // A body that is no JSON is what the client calls an application error.
    ["bad_gateway_html", 502, "application_error"],
  ];
  for (const [kind, status, name] of expected) {
    await control("POST", "/_/faults", { kind });
    assert.deepEqual(await errorOf({}), [status, name], kind);
  }
  assert.deepEqual(await control("GET", "/_/accepted"), []);
});

test("an answer that is lost is an error without a status, and the mail is out", async () => {
  await control("POST", "/_/faults", { kind: "accept_then_drop" });
  const lost = await client().emails.send(mail(), { idempotencyKey: "order/1" });
  assert.equal(lost.data, null);
  assert.equal(lost.error.statusCode, null);
  const again = await client().emails.send(mail(), { idempotencyKey: "order/1" });
  const accepted = await control("GET", "/_/accepted");
  assert.deepEqual(accepted.map((one) => one.id), [again.data.id]);
});

test("the client passes on what the model says about the pace", async () => {
  await control("POST", "/_/rate", { perSecond: 7 });
  const sent = await client().emails.send(mail());
  assert.equal(sent.headers["ratelimit-limit"], "7");
  assert.equal(sent.headers["ratelimit-policy"], "7;w=1");
  await control("POST", "/_/faults", { kind: "rate_limit", retryAfter: 3 });
  const refused = await client().emails.send(mail());
  assert.deepEqual([refused.error.statusCode, refused.error.name], [429, "rate_limit_exceeded"]);
  assert.equal(refused.headers["retry-after"], "3");
});

test("the official verifier accepts delivery news, and no news that were tampered with", async () => {
  const received = [];
  const receiver = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    received.push({ headers: request.headers, body });
    response.end();
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  try {
    const url = `http://127.0.0.1:${receiver.address().port}/`;
    await control("POST", "/_/webhook", { url, secret: webhookSecret });
    const { data } = await client().emails.send(mail());
    const order = { id: data.id, type: "email.delivered" };
    const { svixId } = await control("POST", "/_/deliver", order);
    await control("POST", "/_/deliver", { ...order, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" });
    const verifier = new Webhook(webhookSecret);
    const [good, forged] = received;
    // It throws where it refuses; whether it also reads the body depends on its version.
    verifier.verify(good.body, good.headers);
    const event = JSON.parse(good.body);
    assert.equal(event.type, "email.delivered");
    assert.equal(event.data.email_id, data.id);
    assert.deepEqual(event.data.tags, { outbox_id: "ord_1" });
    assert.equal(good.headers["svix-id"], svixId);
    assert.throws(() => verifier.verify(`${good.body} `, good.headers));
    assert.throws(() => verifier.verify(forged.body, forged.headers));
  } finally {
    receiver.close();
  }
});
