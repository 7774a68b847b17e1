// Attachments in workerd: they arrive byte for byte, in the round trips of any mail.
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { UNPACED, assertSentOnce, record, settled, states } from './checks.mjs';
import { startStack, until } from './harness.mjs';

/** Bytes of all attachments of one mail at most. */
const ATTACHMENT_BYTES_MAX = 2 * 1024 * 1024;

let stack;
before(async () => {
  stack = await startStack({ vars: UNPACED });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

/** A file of this many bytes, unlike any other, as an attachment. */
function file(filename, bytes) {
  const start = randomUUID();
  const content = Buffer.alloc(bytes, start);
  return { filename, contentType: 'application/pdf', content: content.toString('base64') };
}

/** A report's delivery to one reader. */
function report(period, attachments, to = `${period}@example.org`) {
  return {
    family: 'report',
    key: { reportId: 'weekly', period, readerId: to },
    to,
    content: { subject: `Report of ${period}`, text: 'See the attachments.' },
    attachments,
  };
}

/** What the provider keeps of an attachment. */
function kept({ filename, contentType, content }) {
  const bytes = Buffer.from(content, 'base64');
  return { filename, contentType, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** Every mail at the provider has the attachments that its intent had. */
async function assertArrived(intents) {
  const arrived = new Map((await stack.accepted()).map(({ to, attachments }) => [to[0], attachments]));
  for (const { to, attachments } of intents) assert.deepEqual(arrived.get(to), attachments.map(kept), to);
}

test('the largest attachment arrives whole, in the round trips of any mail', async () => {
  const intent = report('largest', [file('largest.pdf', ATTACHMENT_BYTES_MAX)]);
  const ids = await record(stack, [intent]);
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
  await assertArrived([intent]);
  // Intake, mark; claim, open, settle.
  assert.equal(await stack.workerRequests(), 5);
  const more = report('more', [file('more.pdf', ATTACHMENT_BYTES_MAX + 1)]);
  const refused = await stack.intents([more]);
  assert.deepEqual([refused.status, refused.body.errors.map(({ code }) => code)], [422, ['attachments_too_large']]);
});

test('twenty mails with attachments at once cost what one does', async () => {
  const intents = Array.from({ length: 20 }, (_, number) => report(`many-${number}`, [file('a.pdf', 60_000), file('b.pdf', 40_000)]));
  const ids = await record(stack, intents);
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
  await assertArrived(intents);
  assert.equal(await stack.workerRequests(), 5);
});

test('large mails in one batch go out one after the other, and none is left behind', async () => {
  // One message is held at its claim, so that all that follows is in the queue together and comes as one batch.
  await stack.faults.database([{ kind: 'hold_before', match: "cause = 'claimed'" }]);
  const first = await record(stack, [report('first', [file('first.pdf', 10)])]);
  await until(async () => (await stack.database.faultsNow()).held === 1, { what: 'the first claim is held' });
  const intents = Array.from({ length: 4 }, (_, number) => report(`large-${number}`, [file('large.pdf', ATTACHMENT_BYTES_MAX)]));
  const ids = [];
  for (const intent of intents) ids.push(...(await record(stack, [intent])));
  await until(async () => (await states(stack, ids)).enqueued === ids.length, { what: 'the publication is marked' });
  await stack.database.release();
  await settled(stack, [...first, ...ids]);
  await assertSentOnce(stack, [...first, ...ids]);
  await assertArrived(intents);
});

test('a test send, a run and its backfill all go out, and the backfill of a run that was not missed sends nothing', async () => {
  const period = `week-${randomUUID()}`;
  const files = [file('weekly.pdf', 20_000)];
  const testSend = { ...report(period, files, 'ada@example.org'), family: 'report_test', key: { reportId: 'weekly', testId: randomUUID() } };
  const run = report(period, files);
  const missed = report(`missed-${period}`, files);
  const ids = [];
  for (const intent of [testSend, run, missed]) ids.push(...(await record(stack, [intent])));
  assert.deepEqual(ids.map((id) => id.slice(0, 4)), ['rpx_', 'rpt_', 'rpt_']);
  await settled(stack, ids);
  const backfill = await stack.intents([run]);
  assert.deepEqual(backfill.body.intents.map(({ id, duplicate }) => [id, duplicate]), [[ids[1], true]]);
  await stack.tick();
  await assertSentOnce(stack, ids);
  assert.equal((await stack.accepted()).length, 3);
});
