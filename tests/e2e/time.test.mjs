// What the platform's own time zones do in workerd: an intent with a zone goes out or waits, by the clock of that zone.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, record, rowsOf, settled } from './checks.mjs';
import { startStack, until } from './harness.mjs';

/** Computed by a third library, and held against a fourth by the native tests. */
const VECTORS = JSON.parse(readFileSync(new URL('./quiet-hours.json', import.meta.url)));

let stack;
before(async () => {
  stack = await startStack({ vars: SHORT });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

/** A mail of the family that keeps quiet from nine in the evening to seven in the morning. */
function campaign(name, more) {
  return {
    family: 'campaign',
    idempotencyKey: name,
    to: `${name}@example.org`,
    content: { subject: `About ${name}`, text: 'Good news.' },
    ...more,
  };
}

/** A zone whose clock shows about this hour now; the signs of these names count the other way. */
function zoneAt(hour) {
  const ahead = ((hour - new Date().getUTCHours() + 36) % 24) - 12;
  return `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`;
}

test('the platform opens quiet hours at the instants of the vectors', async () => {
  const ids = [];
  for (let from = 0; from < VECTORS.length; from += 100) {
    const part = VECTORS.slice(from, from + 100);
    ids.push(...(await record(stack, part.map(({ zone, notBefore }, index) => campaign(`v${from + index}`, { timeZone: zone, notBefore })))));
  }
  const rows = await stack.sql('SELECT id, not_before FROM outbox WHERE id IN (SELECT value FROM json_each(?1))', [JSON.stringify(ids)]);
  const opens = new Map(rows.map(({ id, not_before: at }) => [id, new Date(Number(at)).toISOString()]));
  const wrong = VECTORS.map((vector, index) => ({ ...vector, is: opens.get(ids[index]) })).filter((vector) => vector.is !== vector.opens);
  assert.deepEqual(wrong, []);
  const body = await stack.intent(ids[0]);
  assert.equal(body.notBefore, VECTORS[0].opens);
});

test('at noon a mail goes out, and at night it waits for seven', async () => {
  const [noon, night] = await record(stack, [campaign('noon', { timeZone: zoneAt(12) }), campaign('night', { timeZone: zoneAt(1) })]);
  await settled(stack, [noon], { ticks: true });
  const [sent, waits] = await rowsOf(stack, [noon, night]);
  assert.deepEqual([sent.status, waits.status], ['sent', 'pending']);
  const body = await stack.intent(night);
  const wait = Date.parse(body.notBefore) - Date.now();
  assert.ok(wait > 4 * 3_600_000 && wait < 6.1 * 3_600_000, body.notBefore);
  assert.equal((await stack.accepted()).length, 1);
});

test('a row that is claimed in its quiet hours is given back, whatever made it due', async () => {
  const [id] = await record(stack, [campaign('late', { timeZone: zoneAt(1) })]);
  await stack.sql('UPDATE outbox SET not_before = NULL, relay_at = 1 WHERE id = ?1', [id]);
  await stack.tick();
  await until(async () => (await rowsOf(stack, [id]))[0].cause === 'outside_hours', { what: 'the row is given back' });
  const [row] = await rowsOf(stack, [id]);
  assert.deepEqual([row.status, Number(row.attempt_count)], ['retry', 0]);
  assert.equal((await stack.accepted()).length, 0);
});

test('old names are zones; what is none is refused at the field, and parks its row alone where it stands already', async () => {
  const named = ['Europe/Kiev', 'Asia/Calcutta', 'US/Pacific', 'UTC'];
  await record(stack, named.map((timeZone, index) => campaign(`named${index}`, { timeZone })));
  for (const timeZone of ['', '+02:00', 'Etc/Unknown', 'Mars/Olympus', 'BST', 'GMT+5', 'SystemV/PST8']) {
    const { status, body } = await stack.intents([campaign('bad', { timeZone })]);
    assert.equal(status, 422, timeZone);
    assert.deepEqual(body.errors.map(({ path, code }) => [path, code]), [['/intents/0/timeZone', 'time_zone_unknown']], timeZone);
  }
  const [bad, good] = await record(stack, [
    campaign('spoilt', { timeZone: zoneAt(12), delay: 3_600_000 }),
    campaign('whole', { timeZone: zoneAt(12), delay: 3_600_000 }),
  ]);
  await stack.sql(`UPDATE letters SET body = json_set(body, '$.timeZone', 'Mars/Olympus') WHERE outbox_id = ?1`, [bad]);
  await stack.sql('UPDATE outbox SET not_before = NULL, relay_at = 1 WHERE id IN (?1, ?2)', [bad, good]);
  await stack.tick();
  await settled(stack, [bad, good], { ticks: true });
  const rows = await rowsOf(stack, [bad, good]);
  assert.deepEqual(rows.map(({ status, cause }) => [status, cause]), [['dead_letter', 'time_zone_unknown'], ['sent', 'accepted']]);
});

test('times count from the business instant, and a window that has closed is told at once', async () => {
  const renewal = (name, businessAt) => ({
    family: 'renewal_notice',
    key: { subscriptionId: name, periodStart: 'p', kind: 'first' },
    to: `${name}@example.org`,
    businessAt,
    data: { company: 'Example', customerName: 'Ada', plan: 'Pro', renewsOn: 'soon', amount: '9 EUR', manageUrl: 'https://example.org/m' },
  });
  const hours = (count) => new Date(Date.now() + count * 3_600_000).toISOString();
  const { status, body } = await stack.intents([renewal('open', hours(48)), renewal('over', hours(12)), renewal('later', hours(100))]);
  assert.equal(status, 202);
  assert.deepEqual(body.intents.map((intent) => intent.status), ['pending', 'expired', 'pending']);
  await settled(stack, [body.intents[0].id], { ticks: true });
  assert.equal((await stack.accepted()).length, 1);
  const refused = await stack.intents([{ ...renewal('without'), businessAt: undefined }]);
  assert.deepEqual(refused.body.errors.map(({ path, code }) => [path, code]), [['/intents/0/businessAt', 'required']]);
});
