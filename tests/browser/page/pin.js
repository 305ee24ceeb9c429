// The field in which a viewer enters the PIN.

export class PinEntry {
  #form;
  #field;
  #answer = null; // resolves what was asked for

  constructor(form) {
    this.#form = form;
    this.#field = form.querySelector('input');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#close(this.#field.value);
    });
  }

  get open() {
    return this.#answer !== null;
  }

  /** Shows the field; resolves with what is entered, or with null if it is withdrawn. */
  ask() {
    this.withdraw(); // one question at a time
    this.#form.hidden = false;
    this.#field.value = '';
    this.#field.focus();
    return new Promise((resolve) => (this.#answer = resolve));
  }

  /** The question no longer stands. */
  withdraw() {
    this.#close(null);
  }

  #close(value) {
    this.#form.hidden = true;
    this.#answer?.(value);
    this.#answer = null;
  }
}
