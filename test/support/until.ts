/**
 * Waits for a condition, not for a time. The limit is there to end a test that will never pass, so it is generous; on
 * failure it says what it waited for and what it saw last.
 */
export async function until(
  what: string,
  condition: () => unknown,
  limitMs = 30_000,
  everyMs = 20,
): Promise<void> {
  const deadline = performance.now() + limitMs;
  let last: unknown;
  for (;;) {
    last = await condition();
    if (last) return;
    if (performance.now() > deadline) throw new Error(`waited ${limitMs} ms in vain until ${what}; last: ${String(last)}`);
    await new Promise(resolve => setTimeout(resolve, everyMs));
  }
}
