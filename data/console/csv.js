// CSV files that spreadsheets of every language open. It imports nothing: the tests run it outside of a browser.

/**
 * A cell of a CSV file. `cli/commands/telemetry/csv.rs` has the same rules, and `tests/csv_cells.json` the cases that both are
 * tested with.
 *
 * A spreadsheet runs a text that begins like a formula, and its language decides which character ends a cell: after each separator,
 * and behind spaces, quotes and invisible characters, the beginning is made harmless. Forms that Unicode counts as the same signs
 * count too. Numbers of languages with semicolons have a decimal comma: with a point they would be read as dates.
 */
export function csvCell(value, separator) {
  if (typeof value === 'number') return separator === ';' ? String(value).replace('.', ',') : String(value);
  const text = value === undefined || value === null ? '' : String(value);
  const safe = text.replace(
    /(^|[;,\t\r\n|])([\s"\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*)([=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff1d\uff0b\uff0d\uff20])/g,
    "$1$2'$3",
  );
  return /[",;\t\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// Without it spreadsheets read UTF-8 as the encoding of the machine.
const BYTE_ORDER_MARK = '\ufeff';

/** The text of a CSV file for readers of a language. Spreadsheets of languages with a decimal comma separate by semicolons. */
export function csvFile(lines, language) {
  const separator = language === 'en' ? ',' : ';';
  const rows = lines.map((line) => line.map((cell) => csvCell(cell, separator)).join(separator));
  return `${BYTE_ORDER_MARK}${rows.join('\r\n')}\r\n`;
}
