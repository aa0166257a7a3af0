// A table that stays usable with thousands of rows: sorted by any column, searched, and shown in
// pages of a hundred. Rows are reused, so that an update costs little and keeps the focus.

import {count} from './format.js';

const PAGE = 100;
let ids = 0;

/** An element with these properties and children; texts become text, never HTML. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== 'role') made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export class Table {
  #columns;
  #key;
  #rows = [];
  #sort;
  #last;
  #page = 0;
  #body;
  #heads;
  #tools;
  #search;
  #counted;
  #pager;
  #empty;

  /** Columns are {title, show, sort, number, note, short}. `show` gives a row's text, or
   *  {text, tone, bar}: a tone is good, warn or bad, and a bar is a share. On a phone, numbers and
   *  short texts stand in pairs. `sort` gives what rows are sorted by; if there is none, it is the
   *  text. Numbers are first sorted with the largest on top. `sortBy` is the column by which rows
   *  are sorted first. Rows that are `last` stand below all others, however they are sorted. */
  constructor(root, {name, columns, key, last = () => false, sortBy = 0, empty}) {
    this.#last = last;
    this.#columns = columns;
    this.#key = key;
    this.#sort = {column: sortBy, down: Boolean(columns[sortBy].number)};
    const id = `search-${++ids}`;
    this.#search = element('input', {type: 'search', id, autocomplete: 'off', spellcheck: false});
    this.#search.addEventListener('input', () => {
      this.#page = 0;
      this.#draw();
    });
    this.#counted = element('span', {className: 'counted', role: 'status'});
    this.#heads = columns.map((column, i) => this.#head(column, i));
    this.#body = element('tbody', {role: 'rowgroup'});
    this.#empty = element('p', {className: 'empty', textContent: empty});
    this.#pager = this.#makePager(name);
    this.#tools = element('div', {className: 'tools'},
      element('label', {htmlFor: id, textContent: `Search ${name}`}), this.#search, this.#counted);
    root.append(
      this.#tools,
      element('div',
        {className: 'scroll', tabIndex: 0, role: 'group', 'aria-label': `Table of ${name}`},
        element('table', {role: 'table'},
          element('caption', {className: 'unseen', textContent: name}),
          element('thead', {role: 'rowgroup'}, element('tr', {role: 'row'}, ...this.#heads)),
          this.#body)),
      this.#empty, this.#pager.root);
  }

  show(rows) {
    this.#rows = rows;
    this.#draw();
  }

  search(text) {
    this.#search.value = text;
    this.#page = 0;
    this.#draw();
  }

  #head(column, i) {
    const button = element('button', {type: 'button', textContent: column.title});
    if (column.note) button.title = column.note;
    button.addEventListener('click', () => {
      const again = this.#sort.column === i;
      this.#sort = {column: i, down: again ? !this.#sort.down : Boolean(column.number)};
      this.#page = 0;
      this.#draw();
    });
    return element('th', {scope: 'col', role: 'columnheader',
      className: column.number ? 'number' : ''}, button);
  }

  #makePager(name) {
    const turn = (step) => () => {
      this.#page += step;
      this.#draw();
    };
    const back = element('button', {type: 'button', textContent: 'Previous'});
    const on = element('button', {type: 'button', textContent: 'Next'});
    back.addEventListener('click', turn(-1));
    on.addEventListener('click', turn(1));
    const place = element('span', {role: 'status'});
    const root = element('nav', {className: 'pager', 'aria-label': `Pages of ${name}`},
      back, place, on);
    return {root, back, on, place};
  }

  /** The rows that have the searched text, or, if none has it as a whole, all of its words. */
  #found() {
    const wanted = this.#search.value.trim().toLowerCase();
    if (wanted === '') return [...this.#rows];
    const texts = this.#rows.map((row) =>
      [this.#columns.map((column) => textOf(column.show(row))).join(' ').toLowerCase(), row]);
    const withAll = (words) =>
      texts.filter(([text]) => words.every((word) => text.includes(word)));
    const whole = withAll([wanted]);
    return (whole.length ? whole : withAll(wanted.split(/\s+/))).map(([, row]) => row);
  }

  #sorted(rows) {
    const {column, down} = this.#sort;
    const {sort, show} = this.#columns[column];
    const keyed = rows.map((row) => [sort ? sort(row) : textOf(show(row)), row]);
    keyed.sort(([a, x], [b, y]) => compare(this.#last(x), this.#last(y)) ||
      (down ? compare(b, a) : compare(a, b)) || compare(this.#key(x), this.#key(y)));
    return keyed.map(([, row]) => row);
  }

  #draw() {
    const found = this.#sorted(this.#found());
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    this.#page = Math.min(Math.max(this.#page, 0), last);
    const from = this.#page * PAGE;
    const shown = found.slice(from, from + PAGE);
    while (this.#body.rows.length > shown.length) this.#body.deleteRow(-1);
    while (this.#body.rows.length < shown.length) this.#body.append(this.#newRow());
    shown.forEach((row, i) => this.#fill(this.#body.rows[i], row));
    this.#heads.forEach((head, i) => {
      const order = i !== this.#sort.column ? 'none' : this.#sort.down ? 'descending' : 'ascending';
      if (head.ariaSort !== order) head.ariaSort = order;
    });
    setText(this.#counted, found.length === this.#rows.length ? '' :
      `${count(found.length)} of ${count(this.#rows.length)}`);
    this.#empty.hidden = this.#rows.length > 0;
    this.#tools.hidden = this.#rows.length === 0;
    this.#body.parentElement.hidden = this.#rows.length === 0;
    this.#pager.root.hidden = last === 0;
    this.#pager.back.disabled = this.#page === 0;
    this.#pager.on.disabled = this.#page === last;
    setText(this.#pager.place,
      `${count(from + 1)}–${count(from + shown.length)} of ${count(found.length)}`);
  }

  #newRow() {
    return element('tr', {role: 'row'}, ...this.#columns.map((column, i) => {
      const cell = i === 0 ? element('th', {scope: 'row', role: 'rowheader'})
        : element('td', {role: 'cell'});
      cell.dataset.label = column.title;
      cell.className = column.number ? 'number' : column.short ? 'short' : '';
      cell.append(element('span', {className: 'text'}));
      return cell;
    }));
  }

  #fill(line, row) {
    this.#columns.forEach((column, i) => {
      const value = column.show(row);
      const cell = line.cells[i];
      setText(cell.lastChild, textOf(value));
      const tone = value.tone ?? '';
      if ((cell.dataset.tone ?? '') !== tone) cell.dataset.tone = tone;
      if (value.bar !== undefined) drawBar(cell, value.bar);
    });
  }
}

function drawBar(cell, share) {
  if (cell.childElementCount === 1) {
    cell.prepend(element('span', {className: 'bar', 'aria-hidden': 'true'}, element('i')));
  }
  const width = `${(100 * Math.min(1, share)).toFixed(1)}%`;
  const bar = cell.firstChild.firstChild;
  if (bar.style.width !== width) bar.style.width = width;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const textOf = (value) => (typeof value === 'string' ? value : value.text);

const collator = new Intl.Collator('en', {numeric: true});

function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(String(a), String(b));
}
