// The CSV of the console, by the cases that the command line is tested with too.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8');
const { csvCell, csvFile } = await import(`data:text/javascript,${encodeURIComponent(read('../../data/console/csv.js'))}`);

test('cells are those of the table that the command line is tested with', () => {
  const cases = JSON.parse(read('../csv_cells.json'));
  assert.ok(cases.length > 40);
  for (const { case: name, value, separator = ',', cell } of cases) assert.equal(csvCell(value, separator), cell, name);
});

test('a file has a byte order mark, and the separators and decimal signs of its language', () => {
  const lines = [['name', 'share'], ['Åsa', 0.5]];
  assert.equal(csvFile(lines, 'en'), '\ufeffname,share\r\nÅsa,0.5\r\n');
  assert.equal(csvFile(lines, 'sv'), '\ufeffname;share\r\nÅsa;0,5\r\n');
  assert.equal(csvFile(lines, 'de'), csvFile(lines, 'sv'));
});
