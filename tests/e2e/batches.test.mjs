// Mails that go out together, in workerd: one call to the provider carries a hundred of them, and a Worker that dies
// between two of its steps leaves a batch that goes out once, with the same bytes.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, record, rowsOf, settled } from './checks.mjs';
import { startStack, until } from './harness.mjs';

const VARS = { ...SHORT, PROVIDER_TIMEOUT_MS: 1_500, DATABASE_TIMEOUT_MS: 1_500, PACE_PER_DOMAIN_PER_MINUTE: 0 };
/** A zone in which it is about noon, so that a campaign may go out whenever this runs; these names count the other way. */
const ahead = ((12 - new Date().getUTCHours() + 36) % 24) - 12;
const NOON = `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`;

let stack;
before(async () => {
  stack = await startStack({ vars: VARS });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

const campaign = (name, count) =>
  Array.from({ length: count }, (_, at) => ({
    family: 'campaign',
    key: { campaignId: name, contactId: `c${at}` },
    to: `${name}-${at}@example.org`,
    timeZone: NOON,
    content: { subject: `Spring ${at}`, text: 'It is here.' },
  }));

/** Every row is sent under the id of its own mail, nobody got two, and what was seen under one key was the same bytes. */
async function sentOnce(ids) {
  const rows = await rowsOf(stack, ids);
  assert.deepEqual([...new Set(rows.map(({ status }) => status))], ['sent']);
  const accepted = await stack.accepted();
  const addressees = accepted.map((mail) => mail.to[0]);
  assert.equal(new Set(addressees).size, addressees.length, 'nobody gets two');
  assert.deepEqual(
    rows.map((row) => row.provider_message_id).sort(),
    accepted.map((mail) => mail.id).sort(),
  );
  for (const requests of Map.groupBy(await stack.requests(), (one) => one.idempotencyKey).values()) {
    assert.equal(new Set(requests.map((one) => one.bodySha256)).size, 1, 'the same bytes every time');
  }
}

test('a hundred mails of a campaign go out in one call', async () => {
  const ids = await record(stack, campaign('hundred', 100));
  await settled(stack, ids, { ticks: true });
  await sentOnce(ids);
  assert.deepEqual((await stack.requests()).map(({ path }) => path), ['/emails/batch']);
});

for (const [when, hold] of [
  ['before the call', { kind: 'hold_after', match: 'INSERT INTO attempts' }],
  ['before the settle', { kind: 'hold_before', match: 'UPDATE attempts SET' }],
]) {
  test(`killed ${when}: the batch goes out once`, async () => {
    await stack.faults.database([hold]);
    const ids = await record(stack, campaign(when.replaceAll(' ', '-'), 20));
    // The relay admits what the intake does not publish.
    await stack.tick();
    await until(async () => (await stack.database.faultsNow()).held >= 1, { what: 'a request is held' });
    await stack.killWorker('SIGKILL');
    await stack.database.clearFaults();
    await stack.database.release({ discard: true });
    await stack.startWorker();
    await settled(stack, ids, { ticks: true, timeoutMs: 60_000 });
    await sentOnce(ids);
    assert.equal((await stack.accepted()).length, 20);
  });
}
