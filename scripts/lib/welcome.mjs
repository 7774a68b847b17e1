// What `npm start` says when everything is up.
import { say } from './say.mjs';

/** Prints the addresses and a command that sends the first mail. */
export function printWelcome(settings, secrets) {
  const intent = {
    intents: [
      {
        family: 'notice',
        idempotencyKey: `first-mail-${Date.now().toString(36)}`,
        to: 'you@example.com',
        content: { subject: 'Hello from Sealpost', text: 'This mail went through the outbox.' },
      },
    ],
  };
  say('');
  say(`Inbox      ${settings.inboxUrl}`);
  say(`Worker     ${settings.workerUrl}`);
  say('Send a mail:');
  say('');
  say(`curl -sS ${settings.workerUrl}/v1/intents \\`);
  say(`  -H 'authorization: Bearer ${secrets.producerToken}' \\`);
  say("  -H 'content-type: application/json' \\");
  say(`  -d '${JSON.stringify(intent)}'`);
  say('');
  say(`A moment later GET ${settings.workerUrl}/v1/intents/ID, with the same token, says "delivery":"delivered".`);
  say('');
}
