import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {utf8Text} from '../kit/octets.ts';
import {readGuarded} from '../kit/regular-file.ts';
import {hasPassword} from '../mail/route-choice.ts';
import type {Destinations} from '../pace/destinations.ts';
import {ConfigError} from './config-error.ts';
import {type ParsedDestinations, parseDestinations} from './destinations-file.ts';
import type {TableValues} from './table.ts';

/** The file that belongs to the program, wherever it is installed. */
const shippedFile = fileURLToPath(new URL('../../../config/destinations.json', import.meta.url));
const largestFile = 1024 * 1024;

/** The settings that the file is read by. */
export type DestinationsSettings = Pick<TableValues, 'destinationsFile' | 'sourcePools' | 'relays'>;

/** What is wrong with MAILCTL_DESTINATIONS_FILE, all of it. */
export function destinationsProblems(settings: DestinationsSettings): string[] {
	const read = destinationsOf(settings);
	return read.ok ? [] : [...read.faults];
}

/** The shipped file with the operator's over it; each fault is a sentence that begins with the file and the path in it. */
export function destinationsOf(settings: DestinationsSettings): ParsedDestinations {
	const parsed = parse(settings);
	return parsed.ok ? parsed : {ok: false, faults: parsed.faults.map(fault => `${named(settings)} ${fault}`)};
}

/** As `destinationsOf`, at the start of what cannot do without. Throws ConfigError where the file is broken. */
export function loadDestinations(settings: DestinationsSettings): Destinations {
	const read = destinationsOf(settings);
	if (!read.ok) {
		throw new ConfigError(read.faults);
	}

	return read.destinations;
}

function parse({destinationsFile, sourcePools, relays}: DestinationsSettings): ParsedDestinations {
	const own: Read =
		destinationsFile === null || destinationsFile === shippedFile
			? {ok: true, json: {}, faults: []}
			: read(destinationsFile);
	if (!own.ok) {
		return own;
	}

	const shipped = JSON.parse(readFileSync(shippedFile, 'utf8')) as unknown;
	const known = {pools: sourcePools.map(({name}) => name), hasRelay: relays.length > 0};
	const parsed = parseDestinations(shipped, own.json, known);
	const faults = parsed.ok ? own.faults : [...own.faults, ...parsed.faults];
	return faults.length > 0 ? {ok: false, faults} : parsed;
}

type Read = {readonly ok: boolean; readonly faults: readonly string[]} & (
	| {readonly ok: true; readonly json: unknown}
	| {readonly ok: false}
);

function read(file: string): Read {
	let text = '';
	try {
		const {content, mode} = readGuarded(file);
		text = utf8Text(content);
		if (text.length > largestFile) {
			return {ok: false, faults: ['is larger than 1 MiB']};
		}

		const json = JSON.parse(text) as unknown;
		const exposed = holdsPassword(json) && (mode & 0o044) !== 0;
		const fault = `holds a password or key and others can read it: run chmod 600 ${file}`;
		return {ok: true, json, faults: exposed ? [fault] : []};
	} catch (error) {
		const {message} = error as Error;
		const isSyntax = error instanceof SyntaxError;
		return {ok: false, faults: [isSyntax ? `is not JSON${lineOf(message, text)}` : `cannot be read: ${message}`]};
	}
}

function holdsPassword(json: unknown): boolean {
	const entries: Array<{readonly route?: unknown} | null> = Object.values(json ?? {});
	return entries.some(entry => typeof entry?.route === 'string' && hasPassword(entry.route));
}

/** Where the parser stopped. Its own words may repeat the text, in which a password may stand. */
function lineOf(message: string, text: string): string {
	const position = /at position (\d+)/.exec(message)?.[1];
	return position === undefined ? '' : `: look at line ${text.slice(0, Number(position)).split('\n').length}`;
}

function named({destinationsFile}: DestinationsSettings): string {
	return destinationsFile === null ? shippedFile : `MAILCTL_DESTINATIONS_FILE="${destinationsFile}"`;
}
