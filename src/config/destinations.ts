import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
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
	const own =
		destinationsFile === null || destinationsFile === shippedFile
			? ({ok: true, json: {}} as const)
			: read(destinationsFile);
	if (!own.ok) {
		return {ok: false, faults: [own.fault]};
	}

	const shipped = JSON.parse(readFileSync(shippedFile, 'utf8')) as unknown;
	return parseDestinations(shipped, own.json, {
		pools: sourcePools.map(({name}) => name),
		hasRelay: relays.length > 0,
	});
}

type Read = {readonly ok: true; readonly json: unknown} | {readonly ok: false; readonly fault: string};

function read(file: string): Read {
	let text = '';
	try {
		text = readFileSync(file, 'utf8');
		return text.length > largestFile
			? {ok: false, fault: 'is larger than 1 MiB'}
			: {ok: true, json: JSON.parse(text) as unknown};
	} catch (error) {
		const {message} = error as Error;
		return {
			ok: false,
			fault: error instanceof SyntaxError ? `is not JSON${lineOf(message, text)}` : `cannot be read: ${message}`,
		};
	}
}

/** Where the parser stopped. Its own words may repeat the text, in which a password may stand. */
function lineOf(message: string, text: string): string {
	const position = /at position (\d+)/.exec(message)?.[1];
	return position === undefined ? '' : `: look at line ${text.slice(0, Number(position)).split('\n').length}`;
}

function named({destinationsFile}: DestinationsSettings): string {
	return destinationsFile === null ? shippedFile : `MAILCTL_DESTINATIONS_FILE="${destinationsFile}"`;
}
