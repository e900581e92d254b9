import type {Setting} from './setting.ts';
import {type SettingKey, table, topics} from './table.ts';

const machine = {hostname: '', cpus: 1, terminal: false};

/** docs/reference/settings.md. */
export function settingsPage(): string {
	const sections = topics.map(
		({title, keys}) => `## ${title}

| name | default | meaning | SIGHUP |
|---|---|---|---|
${keys.map(row).join('\n')}`,
	);
	return `# Settings

Environment variables. They may also stand in a file: \`.env\` in the working directory, or the one named by \`--env-file\`.
The environment wins over the file; an empty value is the same as none. Every problem is reported at once, and an unknown
\`MAILCTL_…\` name is one. A file that holds a password or key may be readable by its owner only. \`mailctl config show\`
prints what holds and where it comes from, \`mailctl config check\` exits 0 or 78.

Durations: a plain number is seconds, else \`500ms 90s 5m 4h 4d\`. Lists: commas. Booleans: \`true|false\`.
Settings marked under SIGHUP change in a running daemon when it gets that signal; the others need a restart.

${sections.join('\n\n')}

This page is made from the code: \`npm run build && node dist/src/cli/tree/write-docs.js\`.
`;
}

/** config/mailctl.env.example: every setting, commented out, at its default. */
export function exampleFile(): string {
	const sections = topics.map(({title, keys}) => `# --- ${title}\n\n${keys.map(entry).join('\n\n')}`);
	return `# Settings of mailctl, at their defaults. Copy this file to .env, or name it with --env-file, and chmod 600 it if it is to
# hold a password. docs/reference/settings.md is the same in tables.

${sections.join('\n\n')}
`;
}

function row(key: SettingKey): string {
	const {name, shownFallback, about, live} = table[key];
	return `| ${name} | ${cell(shownFallback)} | ${cell(about)} | ${live ? 'yes' : ''} |`;
}

function entry(key: SettingKey): string {
	const {name, about, shownFallback, fallback}: Setting<unknown> = table[key];
	// A default that depends on the machine or on other settings is described, not written as a value.
	const fixed = shownFallback === `\`${fallback(machine)}\`` ? fallback(machine) : undefined;
	const described = fixed === undefined && shownFallback !== '–' ? ` Default: ${plain(shownFallback)}.` : '';
	return `# ${plain(about)}${described}\n#${name}=${fixed ?? ''}`;
}

function plain(markdown: string): string {
	return markdown.replaceAll('`', '');
}

function cell(markdown: string): string {
	return markdown.replaceAll('|', '\\|');
}
