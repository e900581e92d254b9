/** Why a destination queue's due messages are not claimed, or wait for a suspended provider: a code and its details. */
export type WaitReason =
	/** The provider already has as many connections and messages in progress as it may have now. */
	| {readonly code: 'pace'; readonly connections: number; readonly copies: number}
	/** The rate limit. `slowed`: `reply` temporarily lowered it. Older versions stored no reply. */
	| {readonly code: 'rate'; readonly perMinute: number; readonly slowed: boolean; readonly reply?: string}
	/**
	 * The provider is suspended for a while: after failures, or because its relay refuses the login. `reply` is how the
	 * last attempt ended. `probing`: one message is testing whether that is over.
	 */
	| {readonly code: 'suspension' | 'route'; readonly reply: string; readonly probing: boolean}
	/** An operator ran `queue suspend`. */
	| {readonly code: 'operator'}
	/** The daily limit of a new source. */
	| {readonly code: 'warm_up'; readonly source: string; readonly group: string; readonly perDay: number}
	/** All sessions of the daemon are in use for others. */
	| {readonly code: 'turn'}
	/** The MX lookup is in progress or has failed. */
	| {readonly code: 'dns'};

/** The code alone, as shown by `mailctl queue why` and the metrics. */
export type WaitCode = WaitReason['code'];

/** A reason as written by a node of an older version, with a sentence. */
export type FormerWaitReason = {[Code in WaitCode]: {readonly code: Code; readonly sentence: string}}[WaitCode];

/** Returns the details of a reason as they are stored: JSON text. */
export function waitParameters({code: _, ...parameters}: WaitReason): string {
	return JSON.stringify(parameters);
}

/** Reads a stored reason. During a rolling upgrade, older nodes may still write sentences. */
export function readWaitReason(code: WaitCode, parameters: string): WaitReason | FormerWaitReason {
	const details = parameters.startsWith('{') ? JSON.parse(parameters) : {sentence: parameters};
	return {...details, code};
}

/** An operator's suspension is read from a table of its own. */
type StoredReason = Exclude<WaitReason | FormerWaitReason, {readonly code: 'operator'}>;

/** Returns why messages for the destination are waiting, as the end of a sentence. */
export function reasonText(reason: StoredReason, destination: string): string {
	if ('sentence' in reason) {
		return reason.sentence;
	}
	switch (reason.code) {
		case 'pace':
			return `its servers are limited to ${reason.connections} connections for now, with ${messageCount(reason.copies)} in progress`;
		case 'rate':
			return `its servers are limited to ${messageCount(reason.perMinute)} per minute${slowdown(reason)}`;
		case 'suspension':
			return `sending to the mail servers of ${destination} is backing off: ${reason.reply}${probe(reason)}`;
		case 'route':
			return `the relay refuses our mail: ${reason.reply}${probe(reason)}`;
		case 'warm_up': {
			const {source, group, perDay} = reason;
			return perDay === 0
				? `${source} is new and does not send yet (MAILCTL_WARM_UP)`
				: `${source} is new and has sent ${group} its ${messageCount(perDay)} for today`;
		}
		case 'turn':
			return 'all sessions are busy with other messages';
		case 'dns':
			return `the mail servers of ${destination} are being looked up`;
	}
}

const probe = ({probing}: {readonly probing: boolean}): string =>
	probing ? '; one message is testing whether that is over' : '';

function slowdown({slowed, reply = ''}: {readonly slowed: boolean; readonly reply?: string}): string {
	const because = reply === '' ? '' : `: ${reply}`;
	return slowed ? ` for now${because}` : '';
}

const messageCount = (n: number): string => (n === 1 ? '1 message' : `${n} messages`);
