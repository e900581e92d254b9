import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {isObject, type JsonObject, stoppedAt} from '../kit/exact-json.ts';
import {packageFile} from '../kit/program-files.ts';
import {readFileWithOwner} from '../kit/regular-file.ts';
import {labelProblem, nearest, utf8Text} from '../kit/text.ts';
import {noOwnRetry, type OwnRetry} from '../mail/retry.ts';
import type {Pace, PaceReaction, Terms} from '../mail/route.ts';
import {hasPassword, parseRoute, type RouteChoice} from '../mail/route.ts';
import {hostName} from '../net/host-name.ts';
import {type Destinations, maxPatternLength, type Provider, replyPattern} from '../queue/pace/choose-route.ts';
import {ConfigError} from './config-error.ts';
import {duration, type Parser, retrySchedule} from './parsers.ts';
import type {TableValues} from './table.ts';

/** The file that ships with the program, wherever it is installed. */
const shippedFile = fileURLToPath(packageFile('config/destinations.json'));
const maxFileLength = 1024 * 1024;

/** The settings that name the file or that its entries refer to. */
type DestinationsSettings = Pick<TableValues, 'destinationsFile' | 'sourcePools' | 'relays'>;

/** Returns all problems with MAILCTL_DESTINATIONS_FILE. */
export function destinationsProblems(settings: DestinationsSettings): string[] {
	const checked = checkDestinations(settings);
	return checked.ok ? [] : [...checked.problems];
}

/** Reads the shipped file, merged with the operator's. Each problem begins with the file and the path in it. */
export function checkDestinations(settings: DestinationsSettings): ParsedDestinations {
	const parsed = parse(settings);
	const source = describeSource(settings);
	return parsed.ok ? parsed : {ok: false, problems: parsed.problems.map(problem => `${source} ${problem}`)};
}

/** Like `checkDestinations`, but throws ConfigError if the file is invalid. */
export function loadDestinations(settings: DestinationsSettings): Destinations {
	const checked = checkDestinations(settings);
	if (!checked.ok) {
		throw new ConfigError(checked.problems);
	}
	return checked.destinations;
}

function parse({destinationsFile, sourcePools, relays}: DestinationsSettings): ParsedDestinations {
	const own: FileContent =
		destinationsFile === null || destinationsFile === shippedFile
			? {ok: true, json: {}, problems: []}
			: read(destinationsFile);
	if (!own.ok) {
		return own;
	}
	const shipped = JSON.parse(readFileSync(shippedFile, 'utf8')) as unknown;
	const available = {pools: sourcePools.map(({name}) => name), hasRelay: relays.length > 0};
	const parsed = parseDestinations(shipped, own.json, available);
	const problems = parsed.ok ? own.problems : [...own.problems, ...parsed.problems];
	return problems.length > 0 ? {ok: false, problems} : parsed;
}

type FileContent = {readonly ok: boolean; readonly problems: readonly string[]} & (
	| {readonly ok: true; readonly json: unknown}
	| {readonly ok: false}
);

function read(file: string): FileContent {
	let text = '';
	try {
		const {content, mode} = readFileWithOwner(file);
		text = utf8Text(content);
		if (text.length > maxFileLength) {
			return {ok: false, problems: ['is larger than 1 MiB']};
		}
		const json = JSON.parse(text) as unknown;
		const isExposed = containsPassword(json) && (mode & 0o044) !== 0;
		const problem = `holds a password or key and others can read it: run chmod 600 ${file}`;
		return {ok: true, json, problems: isExposed ? [problem] : []};
	} catch (error) {
		const problem =
			error instanceof SyntaxError
				? `is not JSON${stoppedAt(error, text)}`
				: `cannot be read: ${(error as Error).message}`;
		return {ok: false, problems: [problem]};
	}
}

function containsPassword(json: unknown): boolean {
	const entries: Array<{readonly route?: unknown} | null> = Object.values(json ?? {});
	return entries.some(entry => typeof entry?.route === 'string' && hasPassword(entry.route));
}

function describeSource({destinationsFile}: DestinationsSettings): string {
	return destinationsFile === null ? shippedFile : `MAILCTL_DESTINATIONS_FILE="${destinationsFile}"`;
}

/** The settings that entries may refer to. */
type Available = {readonly pools: readonly string[]; readonly hasRelay: boolean};

type ParsedDestinations =
	| {readonly ok: true; readonly destinations: Destinations}
	/** Each problem begins with its path: `google.connections: …`. */
	| {readonly ok: false; readonly problems: readonly string[]};

/** Reports a problem at `path`. */
type Refuse = (path: string, problem: string) => void;

const paceFields = ['connections', 'startConnections', 'mailsPerSession', 'perMinute', 'failures', 'reactions'];
const routeFields = ['tls', 'route', 'pool', 'retry', 'lifetime'];
const matchFields = ['mx', 'domains'];
const tlsModes = ['opportunistic', 'unverified', 'required'] as const satisfies ReadonlyArray<Terms['tls']>;
const maxNames = 100;
const maxReactions = 50;
const wait = duration(1000);
const lifetime = duration(1);

/** The fields of the pace that are whole numbers, and their bounds. */
const numbers = {
	connections: [1, 1000],
	startConnections: [1, 1000],
	mailsPerSession: [1, 1_000_000],
	perMinute: [1, 1_000_000],
	failures: [1, 1000],
} as const;

/**
 * Merges the operator's entries over the shipped ones, field by field; `null` removes an entry. Returns the problems of
 * both files at once.
 */
export function parseDestinations(shipped: unknown, own: unknown, available: Available): ParsedDestinations {
	const problems: string[] = [];
	const refuse: Refuse = (path, problem) => problems.push(`${path}: ${problem}`);
	const entries = mergeEntries(parseEntries(shipped, refuse), parseEntries(own, refuse));
	const {default: defaults = {}, smarthost = {}, ...named} = entries;

	checkFields('default', defaults, [...paceFields, ...routeFields], refuse);
	checkFields('smarthost', smarthost, paceFields, refuse);
	const other = parseProvider('default', defaults, null, available, refuse);
	const destinations = {
		other,
		smarthost: parsePace('smarthost', smarthost, other.pace, refuse),
		byDomain: new Map<string, Provider>(),
		byMx: new Map<string, Provider>(),
	};
	for (const [name, fields] of Object.entries(named)) {
		checkFields(name, fields, [...matchFields, ...paceFields, ...routeFields], refuse);
		const entry = parseProvider(name, fields, other, available, refuse);
		const matched = [
			...addNames(destinations.byDomain, `${name}.domains`, fields.domains, entry, refuse),
			...addNames(destinations.byMx, `${name}.mx`, fields.mx, entry, refuse),
		];
		if (matched.length === 0 && fields.domains === undefined && fields.mx === undefined) {
			refuse(name, 'matches nothing: add mx or domains, a list of names');
		}
	}
	return problems.length > 0 ? {ok: false, problems} : {ok: true, destinations};
}

function parseEntries(file: unknown, refuse: Refuse): Readonly<Record<string, JsonObject | null>> {
	if (!isObject(file)) {
		refuse('the file', 'is not a JSON object of entries');
		return {};
	}
	const entries: Record<string, JsonObject | null> = {};
	for (const [name, entry] of Object.entries(file)) {
		if (name === '$comment') {
			continue;
		}
		if (!/^[a-z0-9][a-z0-9_-]{0,31}$/.test(name)) {
			refuse(
				JSON.stringify(name.slice(0, 40)),
				'is not a valid name of an entry: use lowercase letters, digits, - and _',
			);
		} else if (entry === null && (name === 'default' || name === 'smarthost')) {
			refuse(name, 'cannot be removed, only changed');
		} else if (entry === null || isObject(entry)) {
			entries[name] = entry;
		} else {
			refuse(name, 'is neither an object of fields nor null');
		}
	}
	return entries;
}

function mergeEntries(
	shipped: Readonly<Record<string, JsonObject | null>>,
	own: Readonly<Record<string, JsonObject | null>>,
): Record<string, JsonObject> {
	const entries: Record<string, JsonObject> = {};
	for (const name of new Set([...Object.keys(shipped), ...Object.keys(own)])) {
		const override = own[name];
		if (override !== null) {
			entries[name] = {...shipped[name], ...override};
		}
	}
	return entries;
}

function checkFields(name: string, fields: JsonObject, allowed: readonly string[], refuse: Refuse): void {
	for (const field of Object.keys(fields)) {
		if (field !== 'note' && !allowed.includes(field)) {
			const suggestion = nearest(field, allowed);
			refuse(
				`${name}.${field.slice(0, 40)}`,
				suggestion ? `is not a field: did you mean ${suggestion}?` : `is not one of ${allowed.join(' ')}`,
			);
		}
	}
}

function parseProvider(
	name: string,
	fields: JsonObject,
	base: Provider | null,
	available: Available,
	refuse: Refuse,
): Provider {
	return {
		name,
		pace: parsePace(name, fields, base?.pace ?? null, refuse),
		tls: parseTls(`${name}.tls`, fields.tls, refuse) ?? base?.tls ?? 'opportunistic',
		route: parseRouteChoice(`${name}.route`, fields.route, available, refuse) ?? base?.route ?? null,
		pool: parsePool(`${name}.pool`, fields.pool, available, refuse) ?? base?.pool ?? null,
		retry: parseOwnRetry(name, fields, base?.retry ?? noOwnRetry, refuse),
	};
}

/** Returns `base` itself, not a copy, if the entry has no retry rules. */
function parseOwnRetry(name: string, fields: JsonObject, base: OwnRetry, refuse: Refuse): OwnRetry {
	if (fields.retry === undefined && fields.lifetime === undefined) {
		return base;
	}
	const parseField = <T>(field: string, parser: Parser<T>, fix: string): T | undefined => {
		const value = fields[field];
		const parsed = typeof value === 'string' ? parser(value, '') : undefined;
		if (value !== undefined && !parsed?.ok) {
			refuse(`${name}.${field}`, fix);
		}
		return parsed?.ok ? parsed.value : undefined;
	};
	return {
		schedule:
			parseField(
				'retry',
				retrySchedule,
				'use durations separated by commas such as "1m,5m,4h*", with * after the last to repeat it',
			) ?? base.schedule,
		lifetime: parseField('lifetime', lifetime, 'use a time such as "30m" or "2d"') ?? base.lifetime,
	};
}

function parsePace(name: string, fields: JsonObject, base: Pace | null, refuse: Refuse): Pace {
	const number = (field: keyof typeof numbers): number | undefined => {
		const value = fields[field];
		const [min, max] = numbers[field];
		if (value === undefined || (field === 'perMinute' && value === null)) {
			return undefined;
		}
		if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
			const alternative = field === 'perMinute' ? ', or null for no limit' : '';
			refuse(`${name}.${field}`, `use a whole number, ${min} to ${max}${alternative}`);
			return undefined;
		}
		return value;
	};
	const ownConnections = number('connections');
	const connections = ownConnections ?? base?.connections ?? 1;
	const start = number('startConnections');
	const isValid = ownConnections !== undefined || fields.connections === undefined;
	if (start !== undefined && start > connections && isValid) {
		refuse(`${name}.startConnections`, `use no more than its connections, ${connections}`);
	}
	return {
		connections,
		startConnections: Math.min(connections, start ?? base?.startConnections ?? 1),
		mailsPerSession: number('mailsPerSession') ?? base?.mailsPerSession ?? 1,
		perMinute: number('perMinute') ?? (fields.perMinute === null ? null : (base?.perMinute ?? null)),
		failures: number('failures') ?? base?.failures ?? 1,
		// The first match applies, so an entry's own reactions come before the common ones.
		reactions: [...parseReactionList(`${name}.reactions`, fields.reactions, refuse), ...(base?.reactions ?? [])],
	};
}

function parseTls(path: string, value: unknown, refuse: Refuse): Terms['tls'] | undefined {
	const mode = tlsModes.find(candidate => candidate === value);
	if (value !== undefined && mode === undefined) {
		refuse(path, `use ${tlsModes.join(', ')}`);
	}
	return mode;
}

function parseRouteChoice(
	path: string,
	value: unknown,
	{hasRelay}: Available,
	refuse: Refuse,
): RouteChoice | undefined {
	if (value === undefined) {
		return undefined;
	}
	const parsed = typeof value === 'string' ? parseRoute(value) : ({ok: false, problem: 'is not a string'} as const);
	if (!parsed.ok) {
		refuse(path, parsed.problem);
		return undefined;
	}
	if (parsed.route.kind === 'relay' && !hasRelay) {
		refuse(path, 'relay needs MAILCTL_RELAY_URL');
	}
	return parsed.route;
}

function parsePool(path: string, value: unknown, {pools}: Available, refuse: Refuse): string | undefined {
	const pool = pools.find(candidate => candidate === value);
	if (value !== undefined && pool === undefined) {
		refuse(
			path,
			pools.length > 0
				? `is not a pool of MAILCTL_SOURCE_POOLS: ${pools.join(', ')}`
				: 'needs MAILCTL_SOURCE_POOLS',
		);
	}
	return pool;
}

/** Adds the names of an entry to a map, and returns them. */
function addNames(map: Map<string, Provider>, path: string, names: unknown, entry: Provider, refuse: Refuse): string[] {
	if (names === undefined) {
		return [];
	}
	if (!Array.isArray(names) || names.length === 0 || names.length > maxNames) {
		refuse(path, `use a list of 1 to ${maxNames} names`);
		return [];
	}
	return names.map((text: unknown, index) => {
		const name = typeof text === 'string' ? hostName(text.replace(/^\./, '')) : undefined;
		const existing = name === undefined ? undefined : map.get(name);
		if (name === undefined) {
			refuse(`${path}[${index}]`, 'use a domain name, which includes its subdomains');
		} else if (existing !== undefined) {
			refuse(`${path}[${index}]`, `${name} is also in ${existing.name}: keep one of them`);
		} else {
			map.set(name, entry);
		}
		return name ?? '';
	});
}

/** Parses the reactions of an entry. A reaction with several texts becomes one per text. */
function parseReactionList(path: string, value: unknown, refuse: Refuse): Pace['reactions'] {
	if (value === undefined) {
		return [];
	}
	if (!Array.isArray(value) || value.length > maxReactions) {
		refuse(path, `use a list of at most ${maxReactions} reactions`);
		return [];
	}
	return value.flatMap((item: unknown, index) => parseReactions(`${path}[${index}]`, item, refuse));
}

function parseReactions(path: string, item: unknown, refuse: Refuse): Pace['reactions'] {
	const {text, note: _, advice, ...action} = isObject(item) ? item : {};
	const texts = Array.isArray(text) ? text : [text];
	const patterns = texts.filter((pattern): pattern is string => typeof pattern === 'string' && isPattern(pattern));
	if (patterns.length < texts.length || texts.length === 0) {
		refuse(
			`${path}.text`,
			`use text of the reply, 3 to ${maxPatternLength} characters with * for anything in between, or a list of texts`,
		);
	}
	const parsed = parseReaction(path, action, refuse);
	const reaction = parsed && advice !== undefined ? withAdvice(`${path}.advice`, parsed, advice, refuse) : parsed;
	return reaction === undefined ? [] : patterns.map(pattern => ({text: replyPattern(pattern), reaction}));
}

const maxAdviceLength = 300;

function withAdvice(path: string, reaction: PaceReaction, advice: unknown, refuse: Refuse): PaceReaction | undefined {
	if (reaction.kind === 'suspend' && typeof advice === 'string' && labelProblem(advice, maxAdviceLength) === null) {
		return {...reaction, advice};
	}
	refuse(path, `use a text of 1 to ${maxAdviceLength} characters, and only beside suspend`);
	return undefined;
}

function isPattern(text: string): boolean {
	return text.length <= maxPatternLength && text.replaceAll('*', '').trim().length >= 3;
}

function parseReaction(path: string, action: JsonObject, refuse: Refuse): PaceReaction | undefined {
	const [kind = '', ...otherKinds] = Object.keys(action);
	const value = action[kind];
	if (otherKinds.length === 0) {
		switch (kind) {
			case 'suspend': {
				const forMs = parseWait(`${path}.suspend`, value, refuse);
				return forMs === undefined ? undefined : {kind: 'suspend', forMs};
			}
			case 'slow':
				return parseSlow(`${path}.slow`, value, refuse);
			case 'mailsPerSession': {
				const messages = parseNumber(`${path}.mailsPerSession`, value, refuse);
				return messages === undefined ? undefined : {kind: 'mails_per_session', mails: messages};
			}
		}
	}
	refuse(path, 'use text and one of suspend, slow, mailsPerSession');
	return undefined;
}

function parseSlow(path: string, value: unknown, refuse: Refuse): PaceReaction | undefined {
	const {perMinute, connections = 1, for: time, ...rest} = isObject(value) ? value : {};
	if (Object.keys(rest).length > 0 || !isObject(value)) {
		refuse(path, 'use an object with perMinute, for and optionally connections');
		return undefined;
	}
	const rate = parseNumber(`${path}.perMinute`, perMinute, refuse);
	const max = parseNumber(`${path}.connections`, connections, refuse);
	const forMs = parseWait(`${path}.for`, time, refuse);
	return rate === undefined || max === undefined || forMs === undefined
		? undefined
		: {kind: 'slow', perMinute: rate, connections: max, forMs};
}

function parseNumber(path: string, value: unknown, refuse: Refuse): number | undefined {
	if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 1_000_000) {
		return value;
	}
	refuse(path, 'use a whole number, 1 to 1000000');
	return undefined;
}

function parseWait(path: string, value: unknown, refuse: Refuse): number | undefined {
	const parsed = typeof value === 'string' ? wait(value, '') : undefined;
	if (parsed?.ok) {
		return parsed.value;
	}
	refuse(path, 'use a time such as "15m" or "2h"');
	return undefined;
}
