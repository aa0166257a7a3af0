// The causes for which training loops wait, and how much they waited lately.

/** By name: what a cause means, and what to do about it, as in docs/guides/when-gpus-wait.md. */
export const CAUSES = {
  build: {means: 'workers are the limit', remedy: 'add workers, or threads if CPUs are idle'},
  queue: {means: 'workers are the limit', remedy: 'add workers, or threads if CPUs are idle'},
  python: {
    means: 'processes of a plugin are the limit',
    remedy: 'look at BUSY in `millrace top`. Near 100 %: raise the plugin\'s `processes` if CPUs ' +
      'are idle, otherwise add workers; let the source have `__getitems__`. Low: raise `threads` ' +
      'to at least `processes`',
  },
  transfer: {
    means: 'the network is the limit',
    remedy: 'look at MB/s; move workers closer',
  },
  connect: {
    means: 'the worker of the next batch is not connected',
    remedy: 'read the worker\'s line; look whether its address can be reached from the trainer',
  },
  lease: {
    means: 'no worker may build the next batch',
    remedy: 'read the worker\'s line, which says why: indexing, other dataset, draining',
  },
  attach: {
    means: 'others hold the job, a column is being measured, or no worker has the dataset',
    remedy: 'read the reason beside it',
  },
  expand: {
    means: 'the trainer\'s own CPU is the limit',
    remedy: 'run fewer ranks on the host',
  },
  slot: {
    means: 'the training loop keeps batches',
    remedy: 'drop batches after use, or raise the prefetch bytes',
  },
};

const NAMES = new Map(Object.keys(CAUSES).map((name) => [`WAIT_${name.toUpperCase()}`, name]));

/** "WAIT_BUILD" → "build"; null for none. */
export const causeName = (cause) => NAMES.get(cause) ?? null;

/** The cause for which a consumer waits now; null if it does not. One that is not let in yet
 *  reports nothing itself. */
export function causeNow(consumer) {
  if (consumer.state === 'waiting') return 'attach';
  return consumer.now ? causeName(consumer.now.cause) : null;
}

/** Whether a consumer with this cause waits for one worker. */
export const isForWorker = (cause) =>
  ['connect', 'build', 'queue', 'transfer', 'python'].includes(cause);

const STEP = 10;  // seconds of a bar
export const BARS = 60;

/** How much loops waited in the last ten minutes, from the statuses that this page has seen. */
export class WaitHistory {
  #bars = new Map();  // by time / STEP: {total, waited: {cause: seconds}}
  #before = null;     // when the newest status came, and its consumers

  /** `saved`: what save() gave, so that a page that is loaded again goes on. */
  constructor(saved) {
    for (const [at, bar] of saved ?? []) this.#bars.set(at, bar);
  }

  save() {
    return [...this.#bars];
  }

  /** Adds a status that came at `now` (seconds). What happened between two statuses is spread
   *  evenly over the time between them. */
  add(status, now) {
    const before = this.#before;
    this.#before = {now, consumers: bySession(status)};
    if (!before || now <= before.now || now - before.now > STEP * BARS) return;
    const waited = {};
    let total = 0;
    const add = (cause, seconds) => {
      waited[cause] = (waited[cause] ?? 0) + seconds;
    };
    for (const [session, consumer] of this.#before.consumers) {
      const earlier = before.consumers.get(session);
      if (!earlier) continue;
      if (!consumer.admitted) {
        total += now - before.now;
        add('attach', now - before.now);
        continue;
      }
      const seconds = consumer.counted - earlier.counted;
      if (seconds <= 0) continue;
      total += seconds;
      for (const [cause, sum] of consumer.waited) {
        const more = Math.min(sum - (earlier.waited.get(cause) ?? 0), seconds);
        if (cause && more > 0) add(cause, more);
      }
    }
    this.#spread(before.now, now, total, waited);
  }

  #spread(from, to, total, waited) {
    for (let at = Math.floor(from / STEP); at * STEP < to; ++at) {
      const share = (Math.min(to, (at + 1) * STEP) - Math.max(from, at * STEP)) / (to - from);
      const bar = this.#bars.get(at) ?? {total: 0, waited: {}};
      bar.total += total * share;
      for (const [cause, seconds] of Object.entries(waited)) {
        bar.waited[cause] = (bar.waited[cause] ?? 0) + seconds * share;
      }
      this.#bars.set(at, bar);
    }
    const oldest = Math.floor(to / STEP) - BARS;
    for (const at of this.#bars.keys()) {
      if (at <= oldest) this.#bars.delete(at);
    }
  }

  /** The bars that end at `now`, oldest first: {known, shares: {cause: share}}. */
  bars(now) {
    const last = Math.floor(now / STEP);
    return Array.from({length: BARS}, (_, i) => {
      const bar = this.#bars.get(last - BARS + 1 + i);
      return {known: bar !== undefined, shares: bar ? shares(bar) : {}};
    });
  }

  /** Shares by cause over all bars, and how many seconds they cover. */
  sum() {
    const all = {total: 0, waited: {}};
    for (const bar of this.#bars.values()) {
      all.total += bar.total;
      for (const [cause, seconds] of Object.entries(bar.waited)) {
        all.waited[cause] = (all.waited[cause] ?? 0) + seconds;
      }
    }
    const largest = Object.entries(shares(all)).sort((a, b) => b[1] - a[1]);
    return {known: all.total > 0, seconds: STEP * this.#bars.size, causes: largest};
  }
}

function shares({total, waited}) {
  if (total <= 0) return {};
  return Object.fromEntries(Object.entries(waited).map(([c, s]) => [c, Math.min(1, s / total)]));
}

/** What the history needs of a status' consumers, by their sessions. */
const bySession = (status) => new Map(status.consumers.map((consumer) => [
  numberText(consumer.session),
  {
    admitted: consumer.state !== 'waiting',
    counted: consumer.counted_seconds,
    waited: new Map(consumer.waited.map(({cause, seconds}) => [causeName(cause), seconds])),
  },
]));

/** The number of a session or a worker as a key. */
export const numberText = (number) => (number ? `${number.term}.${number.n}` : '');
