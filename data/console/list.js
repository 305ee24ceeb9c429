// A list with the controls that every list of the console has: search, filters, sorting, count, pages, bulk actions and
// CSV.
import { csvFile } from './csv.js';
import { choice, count, el, empty, quiet, save, table, zoneNote } from './dom.js';
import { finder, spoken, t } from './i18n.js';
import { PHONE, confirmed, mayChange, panel, refusal } from './panel.js';

// On a small screen an entry is as tall as a card.
const PAGE = PHONE.matches ? 10 : 25;
const TYPING_MS = 250;

const order = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)));

/** Searches, filters, sorts and cuts a list that is completely here. */
function cut(all, { columns, filters, matches }, { text, chosen, sort, descending, offset, limit }) {
  const fits = finder(text);
  const found = all.filter(
    (row) =>
      (!text || fits(matches(row))) &&
      filters.every(({ name, test }) => !chosen[name] || test(row, chosen[name])),
  );
  const by = columns.find(({ id }) => id === sort)?.value;
  if (by) found.sort((a, b) => order(by(a) ?? '', by(b) ?? ''));
  if (by && descending) found.reverse();
  return { rows: found.slice(offset, offset + limit), total: found.length };
}

/**
 * A panel with a list. `load(view)` returns all entries, or `{ rows, total }` of the page that `view` asks for.
 * `columns`: those of a table with { id, cell(row, panel), value(row), csv(row) }; one with `value` or `sorted` can be
 * sorted by, and one without `cell` is in the CSV only. `opens` follows the first link of a clicked row, `zoned`
 * names the zone of its times.
 * `filters`: { name, label, options, test(row, value) }. `matches(row)` are the texts that the search compares.
 * `bulk`: { verb, ask(number), danger, fields, work(row, values) }, for entries with a `key`. `search` has the state, which
 * stays in the address, with the members of `keep` (a list for a repeated one). `none` is shown instead of an empty list. The panel's `renew` redraws it.
 */
export function list(title, load, options) {
  const { filters = [], matches, bulk = [], key, search, csv, none, every, more } = options;
  const columns = options.columns.filter(({ cell }) => cell);
  const state = read(search, filters, options.sort);
  const selected = new Map();
  const changes = mayChange() ? bulk : [];
  let total = 0;
  let self;

  const input = el('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', value: state.text });
  const searcher = el('div.field.grow', label(input, options.searchLabel ?? t`Search`), input);
  const chooser = filters.map(({ name, label: text, options: all }) => {
    const element = choice(text, name, [['', t`all`], ...all], state.chosen[name]);
    element.querySelector('select').addEventListener('change', (event) => {
      state.chosen[name] = event.target.value;
      restart();
    });
    return element;
  });
  const total_ = el('p.count', { role: 'status' });
  const download = el('button', { type: 'button' }, t`Export CSV`);
  const bar = el('form.line.bulk', { hidden: true });
  // One landmark on a page: the list whose state is in the address.
  const tools = el('div.line.tools', { role: search ? 'search' : 'group', 'aria-label': title || undefined }, searcher, chooser, sorter(), csv && el('div.last', download));
  const counts = el('div.counts', total_, options.zoned && zoneNote());
  const controls = el('div.controls', tools, bar, counts);

  let timer;
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      state.text = input.value.trim();
      restart();
    }, TYPING_MS);
  });
  download.addEventListener('click', exportAll);

  function restart() {
    state.page = 1;
    selected.clear();
    return renew();
  }

  /** Redraws, keeps the state in the address and the focus on the control that was used. */
  async function renew(focus) {
    // A search that was typed just before the operator went to another page, which has the address now.
    if (!controls.isConnected) return;
    if (search) write(state, filters, options.keep);
    await self.reload();
    if (focus) controls.parentNode.querySelector(`[data-focus="${focus}"]`)?.focus();
  }

  const view = (more) => ({ ...state, offset: (state.page - 1) * PAGE, limit: PAGE, ...more });

  async function page(asked) {
    const got = await load(asked);
    return Array.isArray(got) ? cut([...got], { ...options, filters }, asked) : got;
  }

  async function draw(panelSelf) {
    self = panelSelf;
    const got = await page(view());
    total = got.total;
    const pages = Math.max(1, Math.ceil(total / PAGE));
    if (state.page > pages) {
      state.page = pages;
      return draw(panelSelf);
    }
    const isPlain = !state.text && !Object.values(state.chosen).some(Boolean);
    tools.hidden = isPlain && total === 0;
    const first = (state.page - 1) * PAGE;
    total_.textContent =
      total > PAGE
        ? t`${count(first + 1)}–${count(first + got.rows.length)} of ${count(total)}`
        : total === 1
          ? t`1 entry`
          : t`${count(total)} entries`;
    counts.hidden = tools.hidden;
    drawBulk();
    const nothing = empty(isPlain ? (none ?? t`No entries.`) : t`Nothing matches.`);
    return [got.rows.length === 0 ? nothing : drawTable(got.rows), pager(pages), more?.(got, self)];
  }

  function drawTable(rows) {
    const boxes = changes.length > 0;
    const heads = [boxes && { sort: PHONE.matches ? ' ' : allBox(rows), kind: 'box' }, ...columns.map(header)];
    const cells = rows.map((row) => [boxes && box(row), ...columns.map((column) => column.cell(row, self))].slice(boxes ? 0 : 1));
    const whole = table(heads.filter(Boolean), cells, undefined, { opens: options.opens });
    // Cards have no heads, and so no box in them.
    return boxes && PHONE.matches ? [el('label.all', allBox(rows), t`Select this page`), whole] : whole;
  }

  /** The sorting as a choice, for small screens, where a table has no heads. */
  function sorter() {
    const sortable = columns.filter(({ value, sorted }) => value || sorted);
    const ways = sortable.flatMap(({ head, id }) => id && [[id, `${head} ↑`], [`-${id}`, `${head} ↓`]]).filter(Boolean);
    if (!ways.length) return false;
    const element = choice(t`Sort by`, 'sort', [['', '–'], ...ways], `${state.descending ? '-' : ''}${state.sort}`);
    element.classList.add('sorter');
    element.querySelector('select').addEventListener('change', ({ target }) => {
      state.descending = target.value.startsWith('-');
      state.sort = target.value.replace(/^-/, '');
      state.page = 1;
      renew();
    });
    return element;
  }

  function header(column) {
    const { head, id, value, sorted } = column;
    if (!value && !sorted) return column;
    const is = state.sort === id;
    const sort = () => {
      state.descending = is && !state.descending;
      state.sort = id;
      state.page = 1;
      renew(`sort-${id}`);
    };
    const mark = is ? (state.descending ? ' ↓' : ' ↑') : '';
    const button = el('button.sort', { type: 'button', onclick: sort, 'data-focus': `sort-${id}` }, head, mark);
    const direction = state.descending ? 'descending' : 'ascending';
    return { ...column, sort: button, sorted: is ? direction : undefined };
  }

  function pager(pages) {
    if (pages === 1) return false;
    const to = (text, number, name) =>
      el(
        'button',
        {
          type: 'button',
          disabled: number < 1 || number > pages,
          'data-focus': name,
          onclick: () => {
            state.page = number;
            renew(name);
          },
        },
        text,
      );
    return el(
      'nav.actions',
      { 'aria-label': t`List pages` },
      to(t`Previous`, state.page - 1, 'previous'),
      quiet(t`Page ${count(state.page)} of ${count(pages)}`),
      to(t`Next`, state.page + 1, 'next'),
    );
  }

  // -- Bulk actions

  function box(row) {
    const input = el('input', { type: 'checkbox', checked: selected.has(key(row)), 'aria-label': t`Select ${key(row)}` });
    input.addEventListener('change', () => {
      if (input.checked) selected.set(key(row), row);
      else selected.delete(key(row));
      drawBulk();
    });
    return input;
  }

  function allBox(rows) {
    const every_ = rows.every((row) => selected.has(key(row)));
    const input = el('input', { type: 'checkbox', checked: every_, 'aria-label': t`Select this page` });
    input.addEventListener('change', () => {
      for (const row of rows) {
        if (input.checked) selected.set(key(row), row);
        else selected.delete(key(row));
      }
      const boxes = controls.parentNode.querySelectorAll('td.box input');
      boxes.forEach((one) => (one.checked = input.checked));
      drawBulk();
    });
    return input;
  }

  function drawBulk() {
    bar.hidden = selected.size === 0;
    if (bar.hidden) return bar.replaceChildren();
    const number = count(selected.size);
    if (bar.children.length) return void (bar.firstChild.textContent = t`${number} selected`);
    const buttons = changes.map((one) => [
      one.fields?.(),
      el(one.danger ? 'button.danger' : 'button', { type: 'button', onclick: (event) => run(one, event.target) }, one.verb),
    ]);
    bar.replaceChildren(el('strong', t`${number} selected`), ...buttons.flat().filter(Boolean));
  }

  async function run({ verb, ask, work }, button) {
    const rows = [...selected.values()];
    if (ask && !(await confirmed(ask(count(rows.length)), verb))) return;
    const values = Object.fromEntries(new FormData(bar));
    const failed = [];
    button.disabled = true;
    for (const [i, row] of rows.entries()) {
      self.say(t`${verb}: ${count(i)} of ${count(rows.length)}`);
      try {
        await work(row, values);
        selected.delete(key(row));
      } catch (error) {
        failed.push(error);
      }
    }
    button.disabled = false;
    await self.done(t`${verb}: ${count(rows.length - failed.length)} of ${count(rows.length)} done.`);
    // What failed stays selected, with the first reason.
    if (failed.length) self.show(refusal(failed[0]));
  }

  // -- CSV

  async function exportAll() {
    download.disabled = true;
    try {
      const rows = await (options.loadAll?.(view()) ?? page(view({ offset: 0, limit: Infinity })).then((got) => got.rows));
      const there = options.columns.filter((column) => column.csv ?? column.value);
      const lines = [there.map(({ head }) => head), ...rows.map((row) => there.map((one) => (one.csv ?? one.value)(row)))];
      save(`${csv}.csv`, 'text/csv', csvFile(lines, spoken()));
      self.say(t`Exported ${count(rows.length)} entries.`);
    } catch (error) {
      self.show(refusal(error));
    }
    download.disabled = false;
  }

  const element = panel(title, draw, { every, controls });
  element.renew = () => self.reload();
  return element;
}

let labels = 0;

function label(input, text) {
  input.id = `list-${(labels += 1)}`;
  return el('label', { for: input.id }, text);
}

/** The state that the address has. */
function read(search, filters, first = '') {
  const sort = search?.get('sort') ?? first;
  return {
    text: search?.get('q') ?? '',
    chosen: Object.fromEntries(filters.map(({ name }) => [name, search?.get(name) ?? ''])),
    sort: sort.replace(/^-/, ''),
    descending: sort.startsWith('-'),
    page: Math.max(1, Number(search?.get('page')) || 1),
  };
}

/** Keeps the state in the address, without a step in the history for each typed letter. */
function write({ text, chosen, sort, descending, page }, filters, keep) {
  const members = { ...keep, q: text, sort: sort && `${descending ? '-' : ''}${sort}`, page: page > 1 ? page : '' };
  for (const { name } of filters) members[name] = chosen[name];
  const each = ([name, value]) => [value].flat().map((one) => [name, one]);
  const there = Object.entries(members).flatMap(each).filter(([, value]) => value);
  const path = location.hash.split('?')[0];
  history.replaceState(null, '', path + (there.length ? `?${new URLSearchParams(there)}` : ''));
}
