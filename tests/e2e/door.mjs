// A door in front of the built Worker, for what cannot be done to it from outside: raw bodies on the real queue, and a
// queue that refuses. The Worker behind it is the one that is deployed, unchanged.

/** Where the door is. The Worker itself has nothing there. */
export const DOOR = '/__door/';

/** Whether the producer refuses; it lives as long as the instance. */
let refusing = false;

/** The platform's producer, out of order. It has the class name by which the Worker knows its binding. */
class WorkerQueue {
  async send() {
    throw new Error('Queue send failed: Too Many Requests');
  }

  async sendBatch() {
    throw new Error('Queue sendBatch failed: Too Many Requests');
  }
}

/** The Worker class with the door in front. */
export function withDoor(Worker) {
  return class extends Worker {
    constructor(context, env) {
      super(context, refusing ? { ...env, OUTBOX_QUEUE: new WorkerQueue() } : env);
    }

    async fetch(request) {
      const { pathname } = new URL(request.url);
      if (!pathname.startsWith(DOOR)) return super.fetch(request);
      const order = await request.json();
      switch (pathname.slice(DOOR.length)) {
        case 'queue':
          refusing = order.refuse;
          return Response.json({ refusing });
        case 'send':
          await this.env.OUTBOX_QUEUE.sendBatch(order.map(message));
          return Response.json({ sent: order.length });
        default:
          return new Response('no such order', { status: 404 });
      }
    }
  };
}

/** `{ type, body }` as the queue takes it: bytes come as a list of numbers, the rest as it is. */
function message({ type, body }) {
  return { contentType: type, body: type === 'bytes' ? new Uint8Array(body) : body };
}
