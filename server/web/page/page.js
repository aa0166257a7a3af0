// The page of a daemon: asks for the status every two seconds while somebody looks, and shows it.
// format.js writes numbers, waits.js knows the causes, view.js the columns, table.js the tables.

import {clock, count, percent, period, rate} from './format.js';
import {element, setText, Table} from './table.js';
import {CONSUMERS, DATASETS, EVENTS, groupText, JOBS, view, waitGroups, WORKERS, workersText}
  from './view.js';
import {CAUSES, WaitHistory} from './waits.js';

const PERIOD = 2000;       // milliseconds between two questions
const PATIENCE = 12000;    // for an answer
const APART = 1.5;         // seconds between two statuses at least, for a rate
const SHOWN_GROUPS = 6;    // of consumers that wait for the same

const $ = (id) => document.getElementById(id);
const seconds = () => Date.now() / 1000;

// --- The parts of the page

const tables = {
  jobs: new Table($('jobs'), JOBS),
  consumers: new Table($('consumers'), CONSUMERS),
  workers: new Table($('workers'), WORKERS),
  datasets: new Table($('datasets'), DATASETS),
  events: new Table($('events'), EVENTS),
};
const tabs = [...document.querySelectorAll('[role=tab]')];
let chosen = tabs[0];
let rows = null;  // what view() gave last

function showTab(tab) {
  chosen = tab;
  for (const other of tabs) {
    const here = other === tab;
    other.ariaSelected = String(here);
    other.tabIndex = here ? 0 : -1;
    $(other.getAttribute('aria-controls')).hidden = !here;
  }
  drawTab();
}

function drawTab() {
  const name = chosen.getAttribute('aria-controls');
  if (rows) tables[name].show(rows[name]);
}

for (const tab of tabs) tab.addEventListener('click', () => showTab(tab));
$('tables').querySelector('[role=tablist]').addEventListener('keydown', (event) => {
  const at = tabs.indexOf(chosen);
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  showTab(tabs[(to + tabs.length) % tabs.length]);
  chosen.focus();
});
showTab(chosen);

// --- What a status shows

let statuses = [];  // the newest last; those before it, for rates
let history = null;

function show(status) {
  $('main').hidden = false;
  const last = statuses.at(-1);
  if (last && (last.term !== status.term || last.uptime_seconds > status.uptime_seconds)) {
    statuses = [];
  }
  statuses.push(status);
  while (statuses.length > 2 && status.uptime_seconds - statuses[1].uptime_seconds >= APART) {
    statuses.shift();
  }
  rows = view(statuses.length > 1 ? statuses[0] : null, status);
  showService(status);
  showFigures(status);
  showWaits(status);
  tables.jobs.show(rows.jobs);
  for (const tab of tabs) {
    setText(tab.lastElementChild, count(rows[tab.getAttribute('aria-controls')].length));
  }
  drawTab();
}

function showService({address, version, uptime_seconds, term}) {
  setText($('service'),
    `${address} · version ${version} · up ${period(uptime_seconds)} · term ${term}`);
}

function showFigures(status) {
  const live = status.consumers.filter(({state}) => state === 'live');
  const waited = live.reduce((sum, c) => sum + c.waited_last_minute_seconds, 0);
  const sum = (name) => status.jobs.reduce((total, job) => total + job[name], 0);
  const tokens = status.jobs.some((job) => Number(job.tokens) > 0);
  const ready = status.workers.filter(({state}) => state === 'ready').length;
  const desired = status.desired_workers;
  const figures = [
    ['Loops waited', live.length ? percent(Math.min(1, waited / 60 / live.length)) : '–',
      'of the last minute'],
    ['Examples/s', rate(sum('examples_per_second')),
      `${rate(sum('batches_per_second'))} batches/s, ${rate(sum('bytes_per_second') / 1e6)} MB/s` +
        (tokens ? `, ${rate(sum('tokens_per_second'))} tokens/s` : '')],
    ['Jobs', count(status.jobs.filter(({state}) => state === 'live').length), 'live'],
    ['Consumers', count(live.length), live.length === status.consumers.length
      ? 'live' : `live of ${count(status.consumers.length)}`],
    ['Workers', count(ready),
      desired ? `ready; ${workersText(desired)} wanted are there` : 'ready'],
  ];
  const list = $('figures');
  if (!list.childElementCount) {
    list.append(...figures.map(() =>
      element('div', {}, element('dt'), element('dd'), element('dd', {className: 'note'}))));
  }
  figures.forEach((texts, i) => {
    texts.forEach((text, j) => setText(list.children[i].children[j], text));
  });
}

// --- Waits

function showWaits(status) {
  const now = seconds();
  const place = `waits of ${status.address}`;
  history ??= new WaitHistory(JSON.parse(sessionStorage.getItem(place)));
  history.add(status, now);
  sessionStorage.setItem(place, JSON.stringify(history.save()));
  const sum = history.sum();
  showAdvice(status, sum);
  drawChart(history.bars(now), sum);
  drawCauses(sum.causes);
  const groups = waitGroups(rows.consumers);
  const lines = groups.slice(0, SHOWN_GROUPS).map(groupText);
  if (groups.length > SHOWN_GROUPS) lines.push(`and ${count(groups.length - SHOWN_GROUPS)} more`);
  if (lines.length === 0) lines.push('Nobody waits.');
  const list = $('whom');
  while (list.childElementCount > lines.length) list.lastChild.remove();
  while (list.childElementCount < lines.length) list.append(element('li'));
  lines.forEach((line, i) => setText(list.children[i], line));
}

function showAdvice(status, {known, causes, seconds: covered}) {
  setText($('waits-span'), covered >= 600 ? 'in the last ten minutes'
    : `in the ${period(covered)} since this page was opened`);
  const advice = $('advice');
  if (!known) {
    setText(advice, status.consumers.length
      ? 'The first figures come in a few seconds.'
      : 'No consumer is connected, so nobody waits.');
    return;
  }
  const total = causes.reduce((all, [, share]) => all + share, 0);
  if (total < 0.01) {
    setText(advice, `Loops hardly wait: ${percent(total)} of their time.`);
    return;
  }
  const [cause, share] = causes[0];
  const {means, remedy} = CAUSES[cause];
  const text = `Largest: ${cause}, ${percent(share)} of the loops' time. ` +
    `${upper(means)}. What to do: ${remedy}.`;
  if (advice.textContent === text) return;
  advice.replaceChildren('Largest: ', element('strong', {textContent: cause}),
    `, ${percent(share)} of the loops' time. ${upper(means)}. `,
    element('em', {textContent: 'What to do:'}), ` ${remedy}.`);
}

const upper = (text) => text[0].toUpperCase() + text.slice(1);

const TOPS = [0.05, 0.1, 0.25, 0.5, 1];  // the scale's upper end

function drawChart(bars, {causes}) {
  const names = Object.keys(CAUSES);
  const highest = Math.max(0, ...bars.map(({shares}) =>
    Object.values(shares).reduce((all, share) => all + share, 0)));
  const top = TOPS.find((limit) => highest <= limit) ?? 1;
  setText($('chart-top'), percent(top));
  const chart = $('chart');
  if (!chart.childElementCount) {
    const shape = (name, id) => {
      const made = document.createElementNS('http://www.w3.org/2000/svg', name);
      made.setAttribute('class', id);
      return made;
    };
    chart.append(shape('path', 'unknown'), shape('path', 'grid'),
      ...names.map((name) => shape('path', `cause-${name}`)));
    chart.children[1].setAttribute('d', 'M0 25H600M0 50H600M0 75H600');
  }
  const paths = Object.fromEntries(names.map((name) => [name, '']));
  let unknown = '';
  bars.forEach(({known, shares}, i) => {
    if (!known) unknown += `M${10 * i} 0h10v100h-10z`;
    let bottom = 100;
    for (const name of names) {
      const height = 100 * (shares[name] ?? 0) / top;
      if (height < 0.2) continue;
      paths[name] += `M${10 * i + 0.5} ${bottom.toFixed(1)}h9v-${height.toFixed(1)}h-9z`;
      bottom -= height;
    }
  });
  chart.children[0].setAttribute('d', unknown);
  names.forEach((name, i) => chart.children[i + 2].setAttribute('d', paths[name]));
  chart.setAttribute('aria-label', 'Waits in the last ten minutes: ' +
    (causes.map(([name, share]) => `${name} ${percent(share)}`).join(', ') || 'none'));
}

function drawCauses(causes) {
  const shown = causes.filter(([, share]) => share >= 0.0005);
  $('causes').hidden = shown.length === 0;
  const body = $('causes').tBodies[0];
  while (body.rows.length > shown.length) body.deleteRow(-1);
  while (body.rows.length < shown.length) {
    body.append(element('tr', {}, element('th', {scope: 'row'}),
      element('td', {className: 'number'}), element('td')));
  }
  shown.forEach(([name, share], i) => {
    const {cells} = body.rows[i];
    cells[0].className = `cause-${name}`;
    setText(cells[0], name);
    setText(cells[1], percent(share));
    setText(cells[2], CAUSES[name].means);
  });
}

// --- Asking

let answered = null;  // when the last status came
let trouble = null;   // why there is none now: {text, since}
let timer = 0;
let asking = false;

async function ask() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  try {
    const response = await fetch('status.json',
      {cache: 'no-store', signal: AbortSignal.timeout(PATIENCE)});
    const text = await response.text();
    performance.mark('answer');
    if (response.ok) take(JSON.parse(text));
    else fail(text.trim());
  } catch {
    fail('');
  } finally {
    asking = false;
  }
  timer = setTimeout(ask, PERIOD);
}

function take(answer) {
  answered = new Date();
  trouble = null;
  const alerts = [];
  if (answer.worker !== undefined) {
    showWorkerAlone(answer);
  } else {
    show(answer);
    if (answer.store_error) alerts.push(`The store fails, no job can begin: ${answer.store_error}`);
    document.title = `${$('figures').children[0].children[1].textContent} waiting · Millrace`;
  }
  tell('live', alerts);
  performance.measure('show', 'answer');
}

/** A worker knows only where its dispatcher is. */
function showWorkerAlone({worker, address, version, dispatchers}) {
  setText($('service'), `${address} · version ${version}`);
  const text = `This is the worker ${worker}. Its dispatcher at ${dispatchers.join(' or ')} ` +
    'knows what happens, and shows it on its own page if it has --metrics-listen.';
  let line = $('alone');
  if (!line) {
    line = element('p', {id: 'alone', className: 'panel'});
    document.querySelector('footer').before(line);
  }
  setText(line, text);
}

function fail(text) {
  trouble ??= {since: new Date()};
  trouble.text = text;
  const from = answered ?? trouble.since;
  const gone = `No answer since ${clock(from)}. The daemon has stopped, or cannot be reached. ` +
    'The page goes on when it is back.';
  document.title = 'No answer · Millrace';
  tell('gone', [text === '' ? gone
    : answered ? `No status since ${clock(from)}: ${text}` : text]);
}

/** Says how it stands, and only what is new, so that it is not read out again and again. */
function tell(state, alerts) {
  document.body.dataset.state = state;
  setText($('live'), state === 'live' ? 'live' : 'no answer');
  const box = $('alerts');
  if ([...box.children].map((line) => line.textContent).join('\n') === alerts.join('\n')) return;
  box.replaceChildren(...alerts.map((line) =>
    element('p', {className: 'alert', textContent: line})));
}

document.addEventListener('visibilitychange', ask);
ask();
