/** The component's style. The page's `color-scheme` decides between light and dark. */
export const STYLE = `
:host {
  --accent: light-dark(#0b57d0, #a8c7fa);
  --on-accent: light-dark(#fff, #062e6f);
  --text: light-dark(#1f1f1f, #e3e3e3);
  --quiet: light-dark(#50555a, #b4b9be);
  --error: light-dark(#b3261e, #f2b8b5);
  --line: light-dark(#747775, #8e918f);
  --surface: light-dark(#fff, #1b1c1d);
  --raised: light-dark(#f0f4f9, #282a2c);
  display: block;
  padding: 0.75rem;
  border-radius: 12px;
  color: var(--text);
  background: var(--surface);
  font: 1rem/1.5 system-ui, sans-serif;
  container-type: inline-size;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
.drop {
  border: 2px dashed var(--line);
  border-radius: 12px;
  padding: 1.25rem 1rem;
  text-align: center;
  background: var(--raised);
}
.drop.over { border: 2px solid var(--accent); }
.drop p { margin: 0 0 0.75rem; }
.buttons { display: flex; flex-wrap: wrap; gap: 0.5rem; justify-content: center; }
button {
  font: inherit;
  min-height: 2.75rem;
  padding: 0.25rem 1rem;
  border: 1px solid var(--line);
  border-radius: 8px;
  color: var(--accent);
  background: var(--surface);
  cursor: pointer;
}
button.main { color: var(--on-accent); background: var(--accent); border-color: var(--accent); }
button:hover { text-decoration: underline; }
button:focus-visible, a:focus-visible, .drop:focus-visible {
  outline: 3px solid var(--accent);
  outline-offset: 2px;
}
h2 { font-size: 1rem; margin: 1rem 0 0; }
.all { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; margin: 1rem 0 0; }
.all p { flex: 1 1 14rem; margin: 0; }
ul { list-style: none; margin: 0.5rem 0 0; padding: 0; }
li {
  display: grid;
  grid-template-columns: 1fr auto;
  gap: 0.25rem 0.75rem;
  align-items: center;
  padding: 0.75rem 0;
  border-top: 1px solid light-dark(#dadce0, #444746);
}
.name { overflow-wrap: anywhere; font-weight: 600; }
.name a { color: var(--accent); }
.status { overflow-wrap: anywhere; color: var(--quiet); font-size: 0.9rem; }
.failed .status, .message { color: var(--error); overflow-wrap: anywhere; }
.message { margin: 0.75rem 0 0; }
.actions { grid-column: 2; grid-row: 1 / span 2; display: flex; gap: 0.5rem; }
progress {
  grid-column: 1 / -1;
  width: 100%;
  height: 0.5rem;
  appearance: none;
  border: 0;
  border-radius: 4px;
  overflow: hidden;
  background: light-dark(#d3dbe5, #444746);
}
progress::-webkit-progress-bar { background: light-dark(#d3dbe5, #444746); }
progress::-webkit-progress-value { background: var(--accent); }
progress::-moz-progress-bar { background: var(--accent); }
.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@container (max-width: 30rem) {
  li { grid-template-columns: 1fr; }
  .actions { grid-column: 1; grid-row: auto; order: 1; }
  .actions button { flex: 1; }
}
`;
