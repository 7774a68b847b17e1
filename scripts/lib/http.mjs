// One HTTP request with a time limit that holds. `fetch` has none that does: where its signal aborts between the headers of
// an answer and the end of its body, the promise of the body may be collected as garbage, and whoever awaits it waits for
// ever, past every deadline of their own.
import { request } from 'node:http';

/**
 * Sends one request on a connection of its own, and returns `{ status, headers, text }` when the whole answer is there;
 * `headers` is a `Headers`. `body` is text or bytes. Fails with a `code`: the system's, or `TIMED_OUT` once `timeoutMs`
 * have passed, whatever has come until then.
 */
export function exchange(url, { method = 'GET', headers = {}, body, timeoutMs }) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', fail);
      answer.on('end', () => {
        clearTimeout(timer);
        const told = Object.entries(answer.headersDistinct).flatMap(([name, values]) => values.map((value) => [name, value]));
        resolve({ status: answer.statusCode, headers: new Headers(told), text: Buffer.concat(parts).toString('utf8') });
      });
    });
    const timer = setTimeout(() => {
      const error = new Error(`no whole answer within ${timeoutMs / 1000} s`);
      fail(Object.assign(error, { code: 'TIMED_OUT' }));
    }, timeoutMs);
    function fail(error) {
      clearTimeout(timer);
      sent.destroy();
      reject(error);
    }
    sent.on('error', fail);
    sent.end(body);
  });
}
