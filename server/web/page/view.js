// What the tables show: their columns, and the rows that two statuses give. A rate is the
// difference of a figure between them, divided by the time between their reports.

import {bytes, count, percent, period, ranges, rate, things} from './format.js';
import {causeNow, isForWorker, numberText} from './waits.js';

// --- Rows

/** The figures of `now`, with rates since `before` (null: none known). */
export function view(before, now) {
  const workers = workerRows(before, now);
  const names = new Map(workers.map((w) => [numberText(w.status.id), w.status.name]));
  return {
    workers,
    consumers: consumerRows(before, now, names),
    jobs: now.jobs,
    datasets: Object.entries(now.datasets).map(([id, dataset]) => ({id, dataset})),
    events: [...(now.events ?? [])].reverse(),
  };
}

function rates(earlier, now) {
  const seconds = earlier ? now.counted_seconds - earlier.counted_seconds : 0;
  return (figure) => {
    if (seconds <= 0) return null;
    const more = Number(figure(now)) - Number(figure(earlier));
    return more < 0 ? null : more / seconds;  // it began anew
  };
}

const byNumber = (list, key) => new Map((list ?? []).map((item) => [numberText(item[key]), item]));

function workerRows(before, now) {
  const earlier = byNumber(before?.workers, 'id');
  const waiters = new Map();
  for (const consumer of now.consumers) {
    if (!isForWorker(causeNow(consumer))) continue;
    const id = numberText(consumer.now.worker);
    waiters.set(id, (waiters.get(id) ?? 0) + 1);
  }
  return now.workers.map((status) => {
    const id = numberText(status.id);
    const per = rates(earlier.get(id), status);
    const stages = status.build.map(({stage}) => ({
      stage,
      busy: per((w) => w.build.find((s) => s.stage === stage)?.seconds ?? 0),
    }));
    return {
      status,
      stages: stages.sort((a, b) => (b.busy ?? 0) - (a.busy ?? 0)),
      batches: per((w) => w.sent_batches),
      bytes: per((w) => w.sent_bytes),
      blocked: per((w) => w.send_blocked_seconds),
      waiters: waiters.get(id) ?? 0,
    };
  });
}

function consumerRows(before, now, names) {
  const earlier = byNumber(before?.consumers, 'session');
  return now.consumers.map((status) => {
    const per = rates(earlier.get(numberText(status.session)), status);
    const cause = causeNow(status);
    const worker = isForWorker(cause)
      ? names.get(numberText(status.now.worker)) ?? status.now.worker_address : '';
    return {
      status,
      cause,
      worker,
      batches: per((c) => c.counters?.batches ?? 0),
      examples: per((c) => c.counters?.examples ?? 0),
      waited: per((c) => c.waited_seconds),
    };
  });
}

/** Consumers that wait for the same, the largest groups first. */
export function waitGroups(consumers) {
  const groups = new Map();
  for (const row of consumers) {
    if (!row.cause) continue;
    const detail = row.cause === 'attach' ? row.status.why : row.status.now.stage;
    const key = [row.status.job, row.cause, row.worker, detail].join('\0');
    const group = groups.get(key) ??
      {job: row.status.job, cause: row.cause, worker: row.worker, detail, ranks: [], longest: 0};
    group.ranks.push(row.status.rank);
    group.longest = Math.max(group.longest, row.status.now?.since_seconds ?? 0);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) =>
    b.ranks.length - a.ranks.length || b.longest - a.longest);
}

/** "train, ranks 0–3: for worker w1 to build the next batch: closure, 1.2 s". */
export function groupText({job, cause, worker, detail, ranks: numbers, longest}) {
  const who = `${job}, rank${numbers.length === 1 ? '' : 's'} ${ranges(numbers)}`;
  const since = longest > 0 ? `, ${period(longest)}` : '';
  return `${who}: for ${waitedFor(cause, worker, detail)}${since}`;
}

function waitedFor(cause, worker, detail) {
  const at = detail ? `: ${detail}` : '';
  return {
    lease: 'a worker that may build the next batch',
    connect: `a connection to worker ${worker}`,
    build: `worker ${worker} to build the next batch${at}`,
    python: `a plugin at worker ${worker} to build the next batch`,
    queue: `worker ${worker} to build what comes before`,
    transfer: `a batch on its way from worker ${worker}`,
    expand: 'their own host to expand the batch',
    slot: 'their own loop to let go of batches',
    attach: `the dispatcher to let them in${at}`,
  }[cause];
}

// --- Columns

const STATES = {live: 'good', ready: 'good', waiting: 'warn', preparing: 'warn', draining: 'warn',
  silent: 'bad'};
const OUTCOMES = {completed: 'good', left: 'warn', lost: 'bad', failed: 'bad', stopped: 'warn'};

const stateOf = ({state}) => ({text: state, tone: STATES[state] ?? ''});

/** Of a job that has ended: how. */
function jobState(job) {
  if (job.state !== 'ended' || !job.outcome) return stateOf(job);
  const text = job.outcome === 'stopped' ? `ended by ${job.ended_by}` : job.outcome;
  return {text, tone: OUTCOMES[job.outcome] ?? ''};
}

/** The epoch that a job's step is of; at its end that is the one before its place. */
function epochOf(job) {
  const next = Number(job.next?.epoch ?? 0);
  return job.state === 'ended' && job.progress === 1 && next > 0 ? next - 1 : next;
}

const known = (value) => value ?? -1;

export const JOBS = {
  name: 'jobs',
  key: (job) => job.name,
  last: (job) => job.state === 'ended',
  empty: 'No job yet. A trainer begins one when it connects: millrace consume, or ' +
    'millrace.connect.',
  columns: [
    {title: 'Job', show: (job) => job.name},
    {title: 'State', short: true, show: jobState,
      sort: (job) => ['live', 'waiting', 'ended'].indexOf(job.state)},
    {title: 'Why', show: (job) =>
      (job.error ? {text: job.error, tone: 'bad'} : {text: job.why, tone: job.why ? 'warn' : ''})},
    {title: 'Epoch', number: true, show: (job) => count(epochOf(job)), sort: epochOf},
    {title: 'Progress', number: true, sort: (job) => job.progress,
      note: 'of the epoch', show: (job) => ({text: percent(job.progress), bar: job.progress})},
    {title: 'Step', number: true, sort: (job) => Number(job.step),
      show: (job) => `${count(job.step)} of ${count(job.steps_per_epoch)}`},
    {title: 'Epoch ends in', number: true, sort: (job) => job.eta_seconds,
      show: (job) => (job.eta_seconds > 0 ? period(job.eta_seconds) : '–')},
    {title: 'Batches/s', number: true, sort: (job) => job.batches_per_second,
      show: (job) => rate(job.batches_per_second)},
    {title: 'Examples/s', number: true, sort: (job) => job.examples_per_second,
      show: (job) => rate(job.examples_per_second) +
        (Number(job.tokens) > 0 ? `, ${rate(job.tokens_per_second)} tokens` : '')},
    {title: 'MB/s', number: true, sort: (job) => job.bytes_per_second,
      note: 'of packed batches', show: (job) => rate(job.bytes_per_second / 1e6)},
    {title: 'Ranks', number: true, sort: (job) => job.world_size,
      show: (job) => count(job.world_size)},
    {title: 'Workers', number: true, note: 'that are there, and that the job needs',
      sort: (job) => job.desired_workers?.workers ?? 0,
      show: (job) => workersText(job.desired_workers)},
  ],
};

export const workersText = (desired) =>
  (desired ? `${count(desired.present)} of ${count(desired.workers)}` : '–');

export const CONSUMERS = {
  name: 'consumers',
  key: ({status}) => `${status.job} ${status.rank} ${status.replica} ${numberText(status.session)}`,
  empty: 'No consumer is connected.',
  sortBy: 9,
  columns: [
    {title: 'Consumer', note: 'job, rank and replica', show: ({status}) => consumerText(status)},
    {title: 'State', short: true, show: ({status}) => stateOf(status)},
    {title: 'Step', number: true, sort: ({status}) => Number(status.step),
      show: ({status}) => count(status.step)},
    {title: 'Batches/s', number: true, sort: (c) => known(c.batches), show: (c) => rate(c.batches)},
    {title: 'Buffered', number: true, sort: ({status}) => Number(status.buffered_batches),
      note: 'batches that the consumer holds ahead of its loop',
      show: ({status}) => `${count(status.buffered_batches)}, ${bytes(status.buffered_bytes)}`},
    {title: 'List', number: true, note: 'members up to the last one in use, of all workers it may ask',
      sort: ({status}) => status.list,
      show: ({status}) => `${count(status.list_used)} of ${count(status.list)}`},
    {title: 'Asked', number: true, note: 'steps that are asked for and not here',
      sort: ({status}) => status.asked, show: ({status}) => count(status.asked)},
    {title: 'Built', number: true, note: 'of these, are built and wait for credit, or are on their way',
      sort: ({status}) => status.built, show: ({status}) => count(status.built)},
    {title: 'Due', number: true, note: 'how far the oldest step that is not built is past due',
      sort: ({status}) => status.due_seconds,
      show: ({status}) => (status.due_seconds > 0 ? period(status.due_seconds) : '–')},
    {title: 'Waited', number: true, note: 'in the last minute',
      sort: ({status}) => status.waited_last_minute_seconds,
      show: ({status}) => waitedText(status.waited_last_minute_seconds)},
    {title: 'Waits now for', show: waitsFor},
    {title: 'Where', short: true, show: ({status}) => status.where},
  ],
};

const consumerText = ({job, rank, replica}) =>
  `${job}, rank ${rank}${Number(replica) > 0 ? ` (${replica})` : ''}`;

function waitedText(seconds) {
  const tone = seconds >= 15 ? 'bad' : seconds >= 3 ? 'warn' : '';
  return {text: `${seconds.toFixed(1)} s`, tone, bar: seconds / 60};
}

function waitsFor({status, cause, worker}) {
  if (!cause) return {text: status.why || '–'};
  const words = [cause];
  if (cause === 'attach') return {text: `attach: ${status.why}`, tone: 'warn'};
  if (status.now.stage) words.push(status.now.stage);
  if (worker) words.push(`at ${worker}`);
  return {text: `${words.join(' ')}, ${period(status.now.since_seconds)}`, tone: 'warn'};
}

export const WORKERS = {
  name: 'workers',
  key: ({status}) => `${status.name} ${numberText(status.id)}`,
  empty: 'No worker has come yet: start millraced worker with this dispatcher\'s address.',
  columns: [
    {title: 'Worker', show: ({status}) => status.name},
    {title: 'State', short: true, show: ({status}) => stateOf(status)},
    {title: 'Why', show: ({status}) => ({text: status.why, tone: status.why ? 'warn' : ''})},
    {title: 'Threads', number: true, sort: ({status}) => status.threads,
      show: ({status}) => count(status.threads)},
    {title: 'Stages', note: 'seconds of builder threads a second, by stage',
      sort: (w) => w.stages.reduce((sum, s) => sum + (s.busy ?? 0), 0), show: stagesText},
    {title: 'Batches/s', number: true, sort: (w) => known(w.batches), show: (w) => rate(w.batches)},
    {title: 'MB/s', number: true, sort: (w) => known(w.bytes),
      show: (w) => rate(w.bytes === null ? null : w.bytes / 1e6)},
    {title: 'Slots', number: true, note: 'steps that may be asked and not built',
      sort: ({status}) => status.slots, show: ({status}) => count(status.slots)},
    {title: 'Idle', note: 'why some of its threads have nothing to build',
      show: ({status}) => status.idle || '–'},
    {title: 'Queue', number: true, note: 'build time of the batches that may be built',
      sort: ({status}) => status.queue_seconds, show: ({status}) => period(status.queue_seconds)},
    {title: 'Memory', number: true, note: 'bytes that are built and not sent, and their limit',
      sort: ({status}) => Number(status.buffered_bytes), show: memoryText},
    {title: 'Blocked', number: true, note: 'share of the time in which batches waited for credit',
      sort: (w) => known(w.blocked),
      show: (w) => ({text: percent(w.blocked), tone: w.blocked > 0.5 ? 'warn' : ''})},
    {title: 'Waited for', number: true, note: 'consumers that wait for this worker now',
      sort: (w) => w.waiters,
      show: (w) => ({text: w.waiters ? things(w.waiters, 'consumer') : '–',
        tone: w.waiters ? 'warn' : ''})},
    {title: 'Address', short: true, show: ({status}) => status.address},
  ],
};

function stagesText({stages}) {
  const shown = stages.slice(0, 6).map(({stage, busy}) => `${stage} ${rate(busy)}`);
  if (stages.length > 6) shown.push(`${stages.length - 6} others`);
  return shown.join(', ') || '–';
}

function memoryText({status}) {
  const limit = Number(status.memory_limit_bytes);
  const share = limit > 0 ? Number(status.buffered_bytes) / limit : 0;
  return {text: `${bytes(status.buffered_bytes)} of ${bytes(limit)}`, bar: share};
}

export const DATASETS = {
  name: 'datasets',
  key: ({id}) => id,
  empty: 'This dispatcher has no dataset.',
  columns: [
    {title: 'Dataset', show: ({id}) => id},
    {title: 'Kind', short: true, show: ({dataset}) => dataset.kind || '–'},
    {title: 'Files', number: true, sort: ({dataset}) => Number(dataset.files),
      show: ({dataset}) => count(dataset.files)},
    {title: 'Examples', number: true, sort: ({dataset}) => Number(dataset.examples),
      show: ({dataset}) => count(dataset.examples)},
    {title: 'Digest', short: true, show: ({dataset}) => dataset.digest.slice(0, 12) || '–'},
    {title: 'State', show: datasetState},
  ],
};

function datasetState({dataset}) {
  if (dataset.error) return {text: dataset.error, tone: 'bad'};
  if (!dataset.digest) return {text: `indexing ${percent(dataset.verifying)}`, tone: 'warn'};
  const words = ['ready'];
  const leftOut = Number(dataset.left_out_files);
  if (leftOut > 0) words.push(`${things(leftOut, 'file')} left out`);
  // Rounded up, because 0 % would look as if nothing were left.
  if (dataset.unverified > 0) words.push(`${Math.ceil(100 * dataset.unverified)} % unverified`);
  const copied = Number(dataset.in_memory_bytes);
  if (copied > 0) words.push(`${bytes(copied)} in memory`);
  return {text: words.join(', '), tone: leftOut > 0 ? 'warn' : 'good'};
}

export const EVENTS = {
  name: 'events',
  key: (event) => event.number,
  empty: 'Nothing has happened that you would want to know.',
  columns: [
    {title: 'Ago', sort: (event) => event.age_seconds,
      show: (event) => period(event.age_seconds)},
    {title: 'Kind', short: true, show: (event) => event.kind.replaceAll('_', ' ')},
    {title: 'What', show: (event) => event.text},
    {title: 'Times', number: true, sort: (event) => event.count,
      show: (event) => count(event.count)},
    {title: 'Job', short: true, show: (event) => event.job || '–'},
    {title: 'Peer', short: true, show: (event) => event.peer || '–'},
  ],
};
