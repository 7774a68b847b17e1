// The scripts' HTTP request: it ends within its time, however far the answer has come.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { exchange } from '../../scripts/lib/http.mjs';

let server;
let url;
/** How far each path's answer comes; then nothing more is sent. */
const ANSWERS = {
  '/silent': () => {},
  '/headers': (answer) => answer.writeHead(503).flushHeaders(),
  '/half': (answer) => answer.writeHead(200, { 'content-length': 10 }).write('half'),
  '/cut': (answer) => {
    answer.writeHead(200, { 'content-length': 10 }).write('half');
    setImmediate(() => answer.destroy());
  },
};
before(async () => {
  server = createServer((asked, answer) => {
    if (ANSWERS[asked.url]) return ANSWERS[asked.url](answer);
    const parts = [];
    asked.on('data', (part) => parts.push(part));
    asked.on('end', () => {
      answer.writeHead(202, { 'x-method': asked.method, 'set-cookie': ['a=1', 'b=2'] });
      answer.end(`${asked.headers['x-name']}:${Buffer.concat(parts)}`);
    });
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

test('a whole answer comes with its status, its headers and its text', async () => {
  const { status, headers, text } = await exchange(`${url}/`, { method: 'POST', headers: { 'x-name': 'n' }, body: 'ü', timeoutMs: 60_000 });
  assert.deepEqual([status, text, headers.get('X-Method'), headers.getSetCookie()], [202, 'n:ü', 'POST', ['a=1', 'b=2']]);
});

test('an answer that stops anywhere is an error within the time', async () => {
  for (const path of ['/silent', '/headers', '/half']) await assert.rejects(exchange(url + path, { timeoutMs: 50 }), { code: 'TIMED_OUT' }, path);
});

test('a connection that is cut or refused is an error at once', async () => {
  await assert.rejects(exchange(`${url}/cut`, { timeoutMs: 60_000 }), { code: 'ECONNRESET' });
  const closed = createServer();
  await new Promise((listening) => closed.listen(0, '127.0.0.1', listening));
  const { port } = closed.address();
  await new Promise((done) => closed.close(done));
  await assert.rejects(exchange(`http://127.0.0.1:${port}/`, { timeoutMs: 60_000 }), { code: 'ECONNREFUSED' });
});
