import {readFileSync, writeFileSync} from 'node:fs';
import {hostname, userInfo} from 'node:os';
import process from 'node:process';
import type {ExecutionContext} from 'ava';
import type {Cli} from './cli.ts';

const folder = 'test/fixtures/golden';
const {version} = JSON.parse(readFileSync('package.json', 'utf8')) as {version: string};
const prompt = '$ mailctl ';
/** An array or object that contains no other. */
const innermost = /[[{]\n[^[\]{}]*[\]}]/g;
const widest = 160;
const idPattern = /\b(ws|[a-z]{3})_[0-9a-hjkmnp-tv-z]{26}\b/g;

/** Placeholders for values that differ between runs or machines, in the order in which they are applied. */
const masks: ReadonlyArray<readonly [pattern: RegExp, placeholder: string]> = [
	[idPattern, '<$1>'],
	[/\b(key_(?:live|test))_[0-9A-Za-z]{4,}/g, '$1_<secret>'],
	[/\bwhsec_[\w-]{43}/g, 'whsec_<secret>'],
	[/\bp=[A-Za-z0-9+/=]{40,}/g, 'p=<public key>'],
	[/=[0-9a-f]{40}\b/g, '=<token>'],
	[/\b[0-9a-f]{64}\b/g, '<digest>'],
	[/(\/login\/|[?]token=|\/provider-events\/\w+\/)[\w-]{30,}/g, '$1<token>'],
	// A string in DNS holds 255 octets, so the end of a long key is in a second one.
	[/[A-Za-z0-9+/]{65,}={0,2}/g, '<rest of the key>'],
	[/"secret": "[\w-]{43}"/g, '"secret": "<secret>"'],
	// Programs may parse only one of the three formats, so each has its own placeholder.
	[/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>'],
	[/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '<time in seconds>'],
	[/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00/g, '<time with offset>'],
	[/"(ms|bytes)": \d+/g, '"$1": <number>'],
	[/"schema": "\w+"/g, '"schema": "<migration>"'],
	[/\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, '<moment>'],
	[/\b20\d\d-\d\d-\d\d\b/g, '<day>'],
	[/\b127\.\d+\.\d+\.\d+:\d+/g, '<loopback>'],
];

/** Compares a text with a file below test/fixtures/golden. UPDATE_GOLDEN=1 rewrites the file. */
export function matchesGolden(t: ExecutionContext, name: string, text: string): void {
	const file = `${folder}/${name}`;
	if (process.env.UPDATE_GOLDEN) {
		writeFileSync(file, text);
	}
	const golden = readFileSync(file, 'utf8');
	const hint = `Run again with UPDATE_GOLDEN=1 and review the change of ${file}.`;
	// A failure shows only the paragraphs that differ, because the files have thousands of lines.
	t.is(paragraphsOnlyIn(text, golden), paragraphsOnlyIn(golden, text), hint);
	t.true(text === golden, hint);
}

function paragraphsOnlyIn(text: string, other: string): string {
	const known = new Set(other.split('\n\n'));
	return text
		.split('\n\n')
		.filter(paragraph => !known.has(paragraph))
		.join('\n\n');
}

/** The commands of a transcript, without `mailctl`. */
export function commandsOf(transcript: string): string[] {
	return transcript
		.split('\n')
		.filter(line => line.startsWith(prompt))
		.map(line => line.slice(prompt.length));
}

const sortKeys = (_: string, value: unknown) =>
	value !== null && typeof value === 'object' && !Array.isArray(value)
		? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
		: value;

/** JSON with sorted keys, as their order means nothing to a program. */
export function sortedJson(value: unknown, indent = ''): string {
	return JSON.stringify(value, sortKeys, indent);
}

/** A JSON document over several lines, except for the parts that fit into one; any other output unchanged. */
function unfolded(output: string): string {
	try {
		const text = sortedJson(JSON.parse(output), '  ');
		return `${text.replace(innermost, part => (part.length < widest ? part.replace(/\n\s*/g, ' ') : part))}\n`;
	} catch {
		return output;
	}
}

/**
 * Returns a function that runs the commands of a transcript and compares their exit codes and standard output with it.
 * In a command, `<msg>` stands for the first id of that kind in the latest output that contained one. Standard error is
 * for people, so it is not compared, but logged if something differs.
 */
export function createReplay(t: ExecutionContext, cli: Cli): (name: string) => Promise<void> {
	const ids = new Map<string, string>();
	const own: ReadonlyArray<readonly [value: string, placeholder: string]> = [
		[cli.folder, '<folder>'],
		[`"${hostname()}"`, '"<host>"'],
		[`"cli:${userInfo().username}"`, '"cli:<user>"'],
		[`"${version}"`, '"<version>"'],
	];

	function mask(text: string): string {
		const literal = own.reduce((masked, [value, placeholder]) => masked.replaceAll(value, placeholder), text);
		return masks.reduce((masked, [pattern, placeholder]) => masked.replace(pattern, placeholder), literal);
	}

	function note(output: string): void {
		const found = [...output.matchAll(idPattern)].toReversed();
		for (const [id, kind = ''] of found) {
			ids.set(kind, id);
		}
	}

	return async name => {
		const parts: string[] = [];
		const errors: string[] = [];
		const transcript = readFileSync(`${folder}/${name}`, 'utf8');
		for (const command of commandsOf(transcript)) {
			const words = [...command.matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word);
			const args = words.map(word => word.replace(/^<(\w+)>$/, (_, kind) => ids.get(kind) ?? `no ${kind}`));
			const {code, stdout, stderr} = await cli.run(...args);
			note(stdout);
			const output = mask(unfolded(stdout));
			// The texts of doctor depend on the machine.
			const shown = args[0] === 'doctor' ? output.replace(/"(why|detail|fix)": ".+"/g, '"$1": "<text>"') : output;
			parts.push(`${prompt}${command}\nexit ${code}\n${shown}`);
			errors.push(`${command}: ${stderr}`);
		}
		const text = parts.join('\n');
		if (text !== transcript && !process.env.UPDATE_GOLDEN) {
			t.log(errors.join('\n'));
		}
		matchesGolden(t, name, text);
	};
}
