// What the player asks the viewer: the PIN, a log-in, a session to end, and what to do after a refusal. One panel at a time.

import { refusalText } from './player-texts.js';

/**
 * @typedef {import('./error.js').PlaygateError} PlaygateError
 * @typedef {import('./player-texts.js').Texts} Texts
 */

const DIGITS = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '', '0', '⌫'];
const PIN_LENGTH = 6;

export class Panels {
  #stage;
  #texts;
  /** @type {((value: string | null) => void) | null} */
  #answer = null;
  /** @type {HTMLElement | null} */
  #panel = null;

  /**
   * @param {HTMLElement} stage
   * @param {Texts} words
   */
  constructor(stage, words) {
    this.#stage = stage;
    this.#texts = words;
  }

  get open() {
    return this.#panel !== null;
  }

  /** Takes the panel away; who waits for its answer gets null. */
  close() {
    this.#finish(null);
  }

  /**
   * @param {PlaygateError} error
   * @param {AbortSignal} [signal]
   * @returns {Promise<string | null>}
   */
  askPin(error, signal) {
    const t = this.#texts;
    const field = element('input', { class: 'pin', part: 'pin', 'aria-label': t.pin, type: 'password', inputmode: 'numeric', autocomplete: 'off', maxlength: String(PIN_LENGTH) });
    const pad = element('div', { class: 'digits', part: 'digits' }, ...DIGITS.map((digit) => (digit ? this.#digit(digit, field) : element('span'))));
    return this.#ask([paragraph(refusalText(error, '', t)), field, pad, main(t.unlock), this.#cancel()], () => field.value, field, signal);
  }

  /**
   * @param {string} digit
   * @param {HTMLInputElement} field
   */
  #digit(digit, field) {
    const erase = digit === '⌫';
    const button = element('button', { type: 'button', ...(erase && { 'aria-label': this.#texts.delete }) }, digit);
    button.addEventListener('click', () => {
      field.value = erase ? field.value.slice(0, -1) : (field.value + digit).slice(0, PIN_LENGTH);
    });
    return button;
  }

  /**
   * @param {PlaygateError | null} error
   * @returns {Promise<import('./login.js').Credentials | null>}
   */
  async askCredentials(error) {
    const t = this.#texts;
    const email = element('input', { type: 'email', required: '', autocomplete: 'username' });
    const password = element('input', { type: 'password', required: '', autocomplete: 'current-password' });
    const text = paragraph(error ? refusalText(error, '', t) : t.NOT_LOGGED_IN);
    const fields = [element('label', {}, t.email, email), element('label', {}, t.password, password)];
    const answer = await this.#ask([text, ...fields, main(t.logIn), this.#cancel()], () => 'given', email);
    return answer === null ? null : { identity: email.value, accessKey: password.value };
  }

  /**
   * @param {PlaygateError} error
   * @param {{value: string, label: string}[]} choices
   * @param {AbortSignal} [signal]
   * @returns {Promise<string | null>}
   */
  choose(error, choices, signal) {
    const buttons = choices.map(({ value, label }) => {
      const button = element('button', { type: 'button' }, label);
      button.addEventListener('click', () => this.#finish(value));
      return button;
    });
    return this.#ask([paragraph(refusalText(error, '', this.#texts)), ...buttons, this.#cancel()], () => null, buttons[0], signal);
  }

  /**
   * Why playback has ended, and a way to begin again.
   * @param {string} text
   * @param {() => void} again
   */
  async refuse(text, again) {
    const button = main(this.#texts.tryAgain);
    if ((await this.#ask([paragraph(text), button], () => 'again', null)) === 'again') again();
  }

  #cancel() {
    const button = element('button', { type: 'button' }, this.#texts.cancel);
    button.addEventListener('click', () => this.#finish(null));
    return button;
  }

  /**
   * @param {Node[]} parts
   * @param {() => string | null} value of the form when it is submitted
   * @param {HTMLElement | null | undefined} focus
   * @param {AbortSignal} [signal]
   * @returns {Promise<string | null>}
   */
  #ask(parts, value, focus, signal) {
    this.#finish(null);
    const form = element('form', {}, ...parts);
    const panel = element('div', { class: 'panel', part: 'panel', role: 'dialog', 'aria-label': parts[0]?.textContent ?? '' }, form);
    panel.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#finish(value());
    });
    panel.addEventListener('keydown', (event) => {
      event.stopPropagation(); // letters and arrows are for the fields
      if (event.key === 'Escape') this.#finish(null);
    });
    this.#panel = panel;
    this.#stage.append(panel);
    focus?.focus({ preventScroll: true });
    return new Promise((done) => {
      this.#answer = done;
      signal?.addEventListener('abort', () => this.#answer === done && this.#finish(null), { once: true });
    });
  }

  /** @param {string | null} value */
  #finish(value) {
    const answer = this.#answer;
    this.#panel?.remove();
    this.#panel = this.#answer = null;
    answer?.(value);
  }
}

/** @param {string} text */
const paragraph = (text) => element('p', { part: 'message' }, text);

/** @param {string} label */
const main = (label) => element('button', { class: 'main', part: 'button main' }, label);

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
