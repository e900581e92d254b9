import {createPublicKey, hash, type KeyObject} from 'node:crypto';
import type {Clock} from '../../kit/clock.ts';
import {limitWork, type WorkClocks} from '../../kit/work-limit.ts';
import {withoutLastLines, writeRelaxed} from '../../mail/dkim-canonical.ts';
import {parseDkimRecord} from '../../mail/dkim-record.ts';
import type {Verdict} from '../../mail/received.ts';
import {oversizedCode} from '../../net/dns.ts';
import {alignmentOf} from './alignment.ts';
import {type BodyForm, isSignedBy, type ParsedSignature, parseSignature, type Signature} from './dkim-signature.ts';
import type {KnownAnswers} from './known-answers.ts';
import {authorDomains, hasRepeatedField, parseFields, type RawField, readHeader, withCrlf} from './raw-header.ts';

// DKIM (RFC 6376). The work grows linearly with the size of a message. It is limited beforehand, and stopped when its
// time is up.

/** The limits up to which the signatures of a message are verified. */
export type SignatureLimits = {
	/** Octets and lines of the message. */
	readonly bytes: number;
	readonly lines: number;
	/** Milliseconds for all signatures together (`limitWork`). */
	readonly timeMs: number;
	/** The services that a key may be valid for (`s=`); one of them is enough. */
	readonly services: readonly string[];
};

/** The limits for a report, which anybody may send, and which costs more to verify than to read. */
export const reportLimits: SignatureLimits = {
	bytes: 512 * 1024,
	lines: 20_000,
	timeMs: 200,
	services: ['email'],
};

/** A key may be valid for TLS reports only (RFC 8460 §3). */
export const tlsReportLimits: SignatureLimits = {...reportLimits, services: ['email', 'tlsrpt']};

/** The limits for a message to people. Its files may be large, so the time for hashing grows with its size. */
export const letterLimits = (bytes: number): SignatureLimits => ({
	...reportLimits,
	bytes: Number.POSITIVE_INFINITY,
	lines: 250_000,
	timeMs: reportLimits.timeMs + (bytes / 1_000_000) * 20,
});

export type SignatureClocks = WorkClocks & {readonly clock: Pick<Clock, 'now'>};

const maxSignatures = 5;
const maxHeaderLines = 1000;
const minRsaBits = 1024;

/**
 * Returns the signatures in a header to verify. Any server on the way may add some, so those of the author's domain
 * come first, and those that break a rule last.
 */
function chosenSignatures(header: string): ParsedSignature[] {
	if (countLines(header, maxHeaderLines) > maxHeaderLines) {
		return [];
	}
	const authors = authorDomains(header);
	const rank = ({signature}: ParsedSignature): number =>
		signature === null ? 3 : Math.min(2, ...authors.map(author => ranks[alignmentOf(signature.domain, author)]));
	return (parseFields(header) ?? [])
		.filter(({name}) => name === 'dkim-signature')
		.map(parseSignature)
		.map(parsed => ({parsed, rank: rank(parsed)}))
		.toSorted((a, b) => a.rank - b.rank)
		.slice(0, maxSignatures)
		.map(({parsed}) => parsed);
}

const ranks = {strict: 0, relaxed: 1, none: 2} as const;

/** Returns the names of the DKIM keys that the signatures of a header need. */
export const keyNames = (header: string): string[] =>
	chosenSignatures(header).flatMap(({signature}) => (signature === null ? [] : [keyName(signature)]));

const keyName = ({domain, selector}: Signature): string => `${selector}._domainkey.${domain}`;

function countLines(text: string | Buffer, max: number): number {
	let lines = 0;
	for (let at = text.indexOf('\n'); at !== -1 && lines <= max; at = text.indexOf('\n', at + 1)) {
		lines++;
	}
	return lines;
}

/**
 * Returns the result of each DKIM signature, those of the author's domain first. Returns none if the message exceeds
 * the limits, and `temperror` for all if they took too long.
 */
export function verifySignatures(
	raw: Buffer,
	answers: KnownAnswers,
	limits: SignatureLimits,
	clocks: SignatureClocks,
): Verdict[] {
	const header = readHeader(raw);
	const chosen = chosenSignatures(header).filter(({domain}) => domain !== null);
	if (chosen.length === 0 || raw.length > limits.bytes || countLines(raw, limits.lines) > limits.lines) {
		return [];
	}
	const fields = parseFields(header) ?? [];
	const allWith = (result: string) => chosen.map(({domain}) => ({result, domain}));
	if (hasRepeatedField(fields)) {
		return allWith('policy');
	}
	const state = limitWork(limits.timeMs, clocks);
	const isOver = () => state() !== 'within';
	const body = new SignedBody(raw, isOver);
	const mail: SignedMail = {fields, body, answers, services: limits.services, now: clocks.clock.now()};
	const verdicts = chosen.map(({signature, domain}) => ({
		domain,
		result: signature === null ? 'permerror' : toResult(signature, mail),
	}));
	return isOver() ? allWith('temperror') : verdicts;
}

type SignedMail = {
	readonly fields: readonly RawField[];
	readonly body: SignedBody;
	readonly answers: KnownAnswers;
	readonly services: readonly string[];
	/** In milliseconds. */
	readonly now: number;
};

/** Returns a result as named by RFC 8601 §2.7.1. */
function toResult(signature: Signature, mail: SignedMail): string {
	const {fields, body, now} = mail;
	const {bodyForm, bodyHash, bodyLength, expires} = signature;
	const hashed = body.inForm(bodyForm);
	if (bodyLength !== null && bodyLength !== hashed.length) {
		// Anybody may have added text after the signed part, and people see it. A length beyond the body is an error
		// (§3.5).
		return bodyLength < hashed.length ? 'policy' : 'permerror';
	}
	if (bodyHash !== hashed.hash || (expires !== null && expires * 1000 < now)) {
		return 'neutral';
	}
	const key = keyFor(signature, mail);
	return typeof key === 'string' ? key : isSignedBy(key, signature, fields) ? 'pass' : 'fail';
}

/** Returns the key that verifies a signature, or the result if no valid key exists. */
function keyFor(signature: Signature, {answers, services}: SignedMail): KeyObject | string {
	const answer = answers.ask<string>('txt', keyName(signature));
	if (answer.kind === 'failed') {
		return answer.code === oversizedCode ? 'permerror' : 'temperror';
	}
	const texts = answer.kind === 'found' ? answer.records : [];
	const record = texts.map(text => parseDkimRecord(text, services)).find(parsed => parsed !== undefined);
	if (!record || record.key === null) {
		return 'neutral';
	}
	const isOfSubdomain = signature.identity !== signature.domain;
	if (record.problem !== null || record.algorithm !== signature.algorithm || (record.isStrict && isOfSubdomain)) {
		return 'permerror';
	}
	const key = publicKey(record.algorithm, record.key);
	const bits = key?.asymmetricKeyDetails?.modulusLength ?? minRsaBits;
	return key?.asymmetricKeyType !== signature.algorithm ? 'neutral' : bits < minRsaBits ? 'policy' : key;
}

/** RFC 8463 §4: records contain the bare 32 octets of an Ed25519 key; this prefix completes the DER form. */
const ed25519Prefix = Buffer.from('302a300506032b6570032100', 'hex');

function publicKey(algorithm: string, octets: Buffer): KeyObject | null {
	const key = algorithm === 'ed25519' ? Buffer.concat([ed25519Prefix, octets]) : octets;
	try {
		return createPublicKey({key, format: 'der', type: 'spki'});
	} catch {
		return null;
	}
}

type HashedBody = {readonly hash: string; readonly length: number};

const pieceOctets = 64 * 1024;

/** The hashes of a body, each canonical form computed once. */
class SignedBody {
	readonly #raw: Buffer;
	readonly #isOver: () => boolean;
	readonly #hashes = new Map<BodyForm, HashedBody>();
	#body: Buffer | null = null;

	constructor(raw: Buffer, isOver: () => boolean) {
		this.#raw = raw;
		this.#isOver = isOver;
	}

	inForm(form: BodyForm): HashedBody {
		const hashed = this.#hashes.get(form) ?? this.#compute(form);
		this.#hashes.set(form, hashed);
		return hashed;
	}

	#compute(form: BodyForm): HashedBody {
		this.#body ??= bodyOf(this.#raw);
		const lines = withoutLastLines(form === 'relaxed' ? this.#relaxed(this.#body) : this.#body);
		// An empty body is one line end in simple form (§3.4.3), and nothing in relaxed form.
		const octets = lines.length === 0 && form === 'simple' ? Buffer.from('\r\n') : lines;
		return {hash: hash('sha256', octets, 'base64'), length: octets.length};
	}

	/** Stops once the time is up, because the result is then not used. */
	#relaxed(body: Buffer): Buffer {
		const output = Buffer.allocUnsafe(body.length);
		let length = 0;
		for (let at = 0; at < body.length && !this.#isOver(); ) {
			const end = body.indexOf('\r\n', at + pieceOctets);
			const piece = body.subarray(at, end === -1 ? body.length : end + 2);
			length = writeRelaxed(piece, output, length);
			at += piece.length;
		}
		return output.subarray(0, length);
	}
}

/** Returns what follows the header, with CRLF at its end unless it is empty. */
function bodyOf(raw: Buffer): Buffer {
	const mail = withCrlf(raw);
	const start = mail.indexOf('\r\n\r\n');
	const body = mail.subarray(start + 4);
	return body.length === 0 || body.subarray(-2).toString('latin1') === '\r\n'
		? body
		: Buffer.concat([body, Buffer.from('\r\n')]);
}
