// What `playgate lab run --command` starts for a scenario: it lets the page of the test play, and stop at SIGTERM.
const [, , address] = process.argv;
const tell = (what) => fetch(new URL(`${what}?${new URLSearchParams({ scenario: process.env.LAB_SCENARIO })}`, address), { method: 'POST' });
process.on('SIGTERM', async () => {
  await tell('stop');
  // Receipts of events are whole seconds: the next scenario must not begin in the same one.
  setTimeout(() => process.exit(0), 2_000);
});
await tell('start');
setInterval(() => {}, 60_000); // until then
