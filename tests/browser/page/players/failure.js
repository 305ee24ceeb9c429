/** The interface's error in what a player kept of an answer, as text or parsed; null if there is none. */
export function errorIn(response) {
  try {
    const body = typeof response === 'string' ? JSON.parse(response) : response;
    return body?.error ?? null;
  } catch {
    return null; // an answer of somebody else
  }
}
