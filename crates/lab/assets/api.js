// Asks the server; a failure becomes an Error with words that can be shown.

async function answered(response) {
  const body = await response.json().catch(() => ({ error: "the answer could not be read" }));
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error("the lab's server does not answer. Is `meshlock lab` still running?");
  }
}

/** The answer to a question with these parts. */
export async function ask(path, parts = {}) {
  const query = new URLSearchParams(parts).toString();
  return answered(await reach(`/api/${path}${query ? `?${query}` : ""}`));
}

/** The answer to a question that sends a text. */
export async function send(path, text) {
  return answered(await reach(`/api/${path}`, { method: "POST", body: text, headers: { "content-type": "text/plain" } }));
}

let known = null;

/** What is known of all algorithms; asked for once. */
export async function algorithms() {
  known ??= ask("algorithms");
  try {
    return await known;
  } catch (error) {
    known = null;
    throw error;
  }
}
