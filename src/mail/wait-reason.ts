/** Why a destination queue's due mail is not claimed, or waits for a suspended site: a code and its details. */
export type WaitReason =
	/** The site uses all the connections and mails under way that it may have now. */
	| {readonly code: 'pace'; readonly connections: number; readonly copies: number}
	/** The rate limit. `slowed`: a reply asked for it, for a while. */
	| {readonly code: 'rate'; readonly perMinute: number; readonly slowed: boolean}
	/**
	 * The site is suspended for a while: after failures, or because its smarthost refuses our log-in. `reply`: how the
	 * last attempt ended. `probing`: one mail is testing whether that is over.
	 */
	| {readonly code: 'suspension' | 'route'; readonly reply: string; readonly probing: boolean}
	/** An operator's `queue suspend`. */
	| {readonly code: 'operator'}
	/** The day's share of a source that is new. */
	| {readonly code: 'warm_up'; readonly source: string; readonly group: string; readonly perDay: number}
	/** All sessions of the daemon are busy with others. */
	| {readonly code: 'turn'}
	/** Its MX is being looked up, or could not be. */
	| {readonly code: 'dns'};

/** The code alone, as `mailctl queue why` and the metrics give it. */
export type WaitCode = WaitReason['code'];

/** The same as a node of an older version wrote it: with a sentence. */
export type FormerWaitReason = {[Code in WaitCode]: {readonly code: Code; readonly sentence: string}}[WaitCode];

/** What belongs to the code, as it is stored: JSON text. */
export function waitParameters({code: _, ...parameters}: WaitReason): string {
	return JSON.stringify(parameters);
}

/** Reads what is stored. Sentences of an older node may come while nodes are replaced one by one. */
export function readWaitReason(code: WaitCode, parameters: string): WaitReason | FormerWaitReason {
	const known = parameters.startsWith('{') ? JSON.parse(parameters) : {sentence: parameters};
	return {...known, code};
}

/** An operator's suspension is read from its own table. */
type ToldReason = Exclude<WaitReason | FormerWaitReason, {readonly code: 'operator'}>;

/** Why mail for the destination waits: the end of a sentence for people. */
export function reasonText(reason: ToldReason, destination: string): string {
	if ('sentence' in reason) {
		return reason.sentence;
	}
	switch (reason.code) {
		case 'pace':
			return `its hosts get ${reason.connections} connections now, ${mails(reason.copies)} are under way`;
		case 'rate':
			return `its hosts get ${mails(reason.perMinute)} per minute${reason.slowed ? ' for now' : ''}`;
		case 'suspension':
			return `sending to the hosts of ${destination} is backing off: ${reason.reply}${probe(reason)}`;
		case 'route':
			return `the smarthost refuses us: ${reason.reply}${probe(reason)}`;
		case 'warm_up': {
			const {source, group, perDay} = reason;
			return perDay === 0
				? `${source} is new and does not send yet (MAILCTL_WARM_UP)`
				: `${source} is new and has sent ${group} the ${mails(perDay)} of today`;
		}
		case 'turn':
			return 'all sessions are busy with other mail, its turn comes';
		case 'dns':
			return `where mail for ${destination} goes is being found out`;
	}
}

const probe = ({probing}: {readonly probing: boolean}): string =>
	probing ? '; one mail is on its way to find out whether that is over' : '';

const mails = (n: number): string => (n === 1 ? '1 mail' : `${n} mails`);
