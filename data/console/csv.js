// CSV files that spreadsheets of every language open.
import { spoken } from './i18n.js';

/**
 * A cell of a CSV file. A spreadsheet runs a text that begins like a formula, and which character begins a cell depends on its
 * language: after each separator the beginning is made harmless. Full-width signs count as the plain ones. The rules of the
 * command line are the same: `csv_cell` in cli/quality_report.rs.
 */
function csvCell(value) {
  if (typeof value === 'number') return String(value);
  const text = value === undefined || value === null ? '' : String(value);
  const safe = text.replace(/(^|[;,\t\r\n|])([ \u00a0]*)([=+\-@\uff1d\uff0b\uff0d\uff20])/g, "$1$2'$3");
  return /[",;\t\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Spreadsheets of languages with a decimal comma separate by semicolons. */
const separator = () => (spoken() === 'en' ? ',' : ';');

// Without it spreadsheets read UTF-8 as the encoding of the machine.
const BYTE_ORDER_MARK = '\ufeff';

/** The text of a CSV file. */
export const csvFile = (lines) => `${BYTE_ORDER_MARK}${lines.map((line) => line.map(csvCell).join(separator())).join('\r\n')}\r\n`;
