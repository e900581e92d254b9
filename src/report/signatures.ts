import {createPublicKey, hash, type KeyObject} from 'node:crypto';
import type {Clock} from '../kit/clock.ts';
import {limitWork, type WorkClocks} from '../kit/work-limit.ts';
import {withoutLastLines, writeRelaxed} from '../mail/dkim-canonical.ts';
import {parseDkimRecord} from '../mail/dkim-record.ts';
import type {Verdict} from '../mail/received.ts';
import {oversizedCode} from '../net/dns.ts';
import {alignmentOf} from './alignment.ts';
import {type BodyForm, isSignedBy, type ParsedSignature, parseSignature, type Signature} from './dkim-signature.ts';
import type {KnownAnswers} from './known-answers.ts';
import {authorDomains, fieldsOf, hasRepeatedField, headerOf, type RawField, withCrlf} from './raw-header.ts';

// DKIM (RFC 6376). Its work grows linearly with the octets of a mail; it is bounded before, and ended when it has had
// its time.

/** What of a mail is worth the time that its signatures take. */
export type SignatureLimits = {
	/** Octets of the mail, and its lines. */
	readonly bytes: number;
	readonly lines: number;
	/** For all signatures together, milliseconds (`limitWork`). */
	readonly timeMs: number;
	/** What a key may be for (`s=`); one of them is enough. */
	readonly services: readonly string[];
};

/** Of a report: to verify one costs more than to read it, and anybody may send some. */
export const reportLimits: SignatureLimits = {
	...{bytes: 512 * 1024, lines: 20_000, timeMs: 200},
	services: ['email'],
};

/** Keys may be for nothing but TLS reports (RFC 8460 §3). */
export const tlsReportLimits: SignatureLimits = {...reportLimits, services: ['email', 'tlsrpt']};

/** Of mail to people, which may have large files: they get time to be hashed. */
export const letterLimits = (bytes: number): SignatureLimits => ({
	...{...reportLimits, bytes: Number.POSITIVE_INFINITY, lines: 250_000},
	timeMs: reportLimits.timeMs + (bytes / 1_000_000) * 20,
});

export type SignatureClocks = WorkClocks & {readonly clock: Pick<Clock, 'now'>};

const maxSignatures = 5;
const maxHeaderLines = 1000;
const minRsaBits = 1024;

/**
 * The signatures of a header that are looked at. Anybody on the way may add some, so those of the author's domain come
 * first, and those that break a rule last.
 */
function chosenSignatures(header: string): ParsedSignature[] {
	if (countLines(header, maxHeaderLines) > maxHeaderLines) {
		return [];
	}
	const authors = authorDomains(header);
	const rank = ({signature}: ParsedSignature): number =>
		signature === null ? 3 : Math.min(2, ...authors.map(author => ranks[alignmentOf(signature.domain, author)]));
	return (fieldsOf(header) ?? [])
		.filter(({name}) => name === 'dkim-signature')
		.map(parseSignature)
		.map(parsed => ({parsed, rank: rank(parsed)}))
		.toSorted((a, b) => a.rank - b.rank)
		.slice(0, maxSignatures)
		.map(({parsed}) => parsed);
}

const ranks = {strict: 0, relaxed: 1, none: 2} as const;

/** Where the keys are that the signatures of a header need. */
export const keyNames = (header: string): string[] =>
	chosenSignatures(header).flatMap(({signature}) => (signature === null ? [] : [keyName(signature)]));

const keyName = ({domain, selector}: Signature): string => `${selector}._domainkey.${domain}`;

function countLines(text: string | Buffer, most: number): number {
	let lines = 0;
	for (let at = text.indexOf('\n'); at !== -1 && lines <= most; at = text.indexOf('\n', at + 1)) {
		lines++;
	}
	return lines;
}

/**
 * What comes of each DKIM signature, those of the author's domain first; none where they are beyond the limits,
 * `temperror` where they took too long.
 */
export function verifySignatures(
	raw: Buffer,
	answers: KnownAnswers,
	limits: SignatureLimits,
	clocks: SignatureClocks,
): Verdict[] {
	const header = headerOf(raw);
	const chosen = chosenSignatures(header).filter(({domain}) => domain !== null);
	if (chosen.length === 0 || raw.length > limits.bytes || countLines(raw, limits.lines) > limits.lines) {
		return [];
	}
	const fields = fieldsOf(header) ?? [];
	const all = (result: string) => chosen.map(({domain}) => ({result, domain}));
	if (hasRepeatedField(fields)) {
		return all('policy');
	}
	const state = limitWork(limits.timeMs, clocks);
	const isOver = () => state() !== 'within';
	const body = new SignedBody(raw, isOver);
	const mail: SignedMail = {fields, body, answers, services: limits.services, now: clocks.clock.now()};
	const verdicts = chosen.map(({signature, domain}) => ({
		...{domain, result: signature === null ? 'permerror' : resultOf(signature, mail)},
	}));
	return isOver() ? all('temperror') : verdicts;
}

type SignedMail = {
	readonly fields: readonly RawField[];
	readonly body: SignedBody;
	readonly answers: KnownAnswers;
	readonly services: readonly string[];
	/** Milliseconds. */
	readonly now: number;
};

/** In the words of RFC 8601 §2.7.1. */
function resultOf(signature: Signature, mail: SignedMail): string {
	const {fields, body, now} = mail;
	const {bodyForm, bodyHash, bodyLength, expires} = signature;
	const found = body.inForm(bodyForm);
	if (bodyLength !== null && bodyLength !== found.length) {
		// What follows the signed part may be anybody's, and people see it. More than there is nobody signed (§3.5).
		return bodyLength < found.length ? 'policy' : 'permerror';
	}
	if (bodyHash !== found.hash || (expires !== null && expires * 1000 < now)) {
		return 'neutral';
	}
	const key = keyFor(signature, mail);
	return typeof key === 'string' ? key : isSignedBy(key, signature, fields) ? 'pass' : 'fail';
}

/** The key that verifies a signature, or the result where there is none that may. */
function keyFor(signature: Signature, {answers, services}: SignedMail): KeyObject | string {
	const answer = answers.ask<string>('txt', keyName(signature));
	if (answer.kind === 'failed') {
		return answer.code === oversizedCode ? 'permerror' : 'temperror';
	}
	const texts = answer.kind === 'found' ? answer.records : [];
	const record = texts.map(text => parseDkimRecord(text, services)).find(one => one !== undefined);
	if (!record || record.key === null) {
		return 'neutral';
	}
	const isOfSubdomain = signature.identity !== signature.domain;
	if (record.fault !== null || record.algorithm !== signature.algorithm || (record.isStrict && isOfSubdomain)) {
		return 'permerror';
	}
	const key = publicKey(record.algorithm, record.key);
	const bits = key?.asymmetricKeyDetails?.modulusLength ?? minRsaBits;
	return key?.asymmetricKeyType !== signature.algorithm ? 'neutral' : bits < minRsaBits ? 'policy' : key;
}

/** RFC 8463 §4: records have the bare 32 octets of an Ed25519 key, which end its DER form. */
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

/** A body in the forms that are signed, each made once. */
class SignedBody {
	readonly #raw: Buffer;
	readonly #isOver: () => boolean;
	readonly #made = new Map<BodyForm, HashedBody>();
	#body: Buffer | null = null;

	constructor(raw: Buffer, isOver: () => boolean) {
		this.#raw = raw;
		this.#isOver = isOver;
	}

	inForm(form: BodyForm): HashedBody {
		const made = this.#made.get(form) ?? this.#make(form);
		this.#made.set(form, made);
		return made;
	}

	#make(form: BodyForm): HashedBody {
		this.#body ??= bodyOf(this.#raw);
		const lines = withoutLastLines(form === 'relaxed' ? this.#relaxed(this.#body) : this.#body);
		// An empty body has one line end in simple form (§3.4.3), none in relaxed form.
		const octets = lines.length === 0 && form === 'simple' ? Buffer.from('\r\n') : lines;
		return {hash: hash('sha256', octets, 'base64'), length: octets.length};
	}

	/** Left off once the time is over: then no result is used. */
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

/** What follows the header, with CRLF at its end if there is anything. */
function bodyOf(raw: Buffer): Buffer {
	const mail = withCrlf(raw);
	const start = mail.indexOf('\r\n\r\n');
	const body = mail.subarray(start + 4);
	return body.length === 0 || body.subarray(-2).toString('latin1') === '\r\n'
		? body
		: Buffer.concat([body, Buffer.from('\r\n')]);
}
