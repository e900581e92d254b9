import type {Phase} from '../../mail/outcome.ts';
import type {EngagementCount, StoredAttempt} from '../../store/recipients.ts';
import type {StoredReport} from '../../store/reports.ts';
import type {StoredEvent} from '../../store/timeline.ts';

// Describes the timeline of a message in words. Replies and reports contain strangers' text, so callers escape it.

/** Returns the details of a timeline entry in addition to its type, or `null`. */
export function eventText({detail}: Pick<StoredEvent, 'detail'>): string | null {
	const {reason, code, reply, url, machine, topic, via} = detail;
	if (topic !== undefined && typeof via === 'string') {
		return `${textOrNull(topic) ?? 'everything'}, ${via}`;
	}
	if (typeof reason === 'string') {
		return reason;
	}
	if (machine === true || typeof url === 'string') {
		return [machine === true ? 'by machine' : '', textOrNull(url) ?? ''].join(' ').trim();
	}
	return typeof reply === 'string' ? withCode(typeof code === 'number' ? code : null, reply) : null;
}

function withCode(code: number | null, reply: string): string {
	return code === null || reply.startsWith(String(code)) ? reply : `${code} ${reply}`;
}

/** Describes an attempt: the mail server, the stage that it reached, and the lines of the reply, each with its code. */
export function attemptText({host, ip, tls, phase, ms, code, reply}: StoredAttempt) {
	return {
		where: `${host ?? 'no host'}${ip === null ? '' : ` [${ip}]`}`,
		how: [...(ip === null ? [] : [tls ?? 'no TLS']), phaseTexts[phase], `${ms} ms`].join(', '),
		reply: reply.split('\n').map(line => withCode(code, line)),
	};
}

const phaseTexts: Readonly<Record<Phase, string>> = {
	route: 'ended before any connection',
	connect: 'ended at the connection',
	greeting: 'ended at the greeting',
	ehlo: 'ended at EHLO',
	starttls: 'ended at STARTTLS',
	auth: 'ended at AUTH',
	mail: 'ended at MAIL FROM',
	rcpt: 'ended at RCPT TO',
	data: 'ended at DATA',
	dot: 'ended after the message',
};

/** Returns a text such as `opened 3 times, 1 by machine`. */
export function engagementText({kind, n, machineN}: EngagementCount): string {
	const times = n === 1 ? 'once' : `${n} times`;
	return `${kind} ${times}${machineN === 0 ? '' : `, ${machineN} by machine`}`;
}

/** Describes a report about a recipient: its time, kind and status, how it was classified, and its reason. */
export function reportText({kind, category, rule, matched, detail, createdAt}: StoredReport) {
	const action = textOrNull(detail.action);
	const what = action === null || action === 'none' ? kindTexts[kind] : `${action} (${kindTexts[kind]})`;
	const classifiedBy = rule === null ? null : `by rule ${rule}${matched === null ? '' : ` on "${matched}"`}`;
	const recipient = textOrNull(detail.recipient);
	const via = textOrNull(detail.via)?.replaceAll('_', ' ');
	const notes = [
		classifiedBy,
		recipient === null ? null : `names ${recipient}`,
		textOrNull(detail.host),
		via === undefined ? null : `found by ${via}`,
	];
	return {
		at: textOrNull(detail.received_at) ?? createdAt,
		summary: [what, textOrNull(detail.status), category].filter(part => part !== null).join(', '),
		notes: notes.filter(note => note !== null),
		reason: textOrNull(detail.reason) ?? '',
	};
}

const kindTexts: Readonly<Record<StoredReport['kind'], string>> = {
	dsn: 'DSN',
	text: 'plain-text bounce',
	arf: 'feedback report',
	auto_reply: 'auto-reply',
	provider: "provider's event",
	dmarc: 'DMARC report',
	tls: 'TLS report',
	other: 'mail',
};

/** Returns a value of a stored detail if it is a string. */
export function textOrNull(value: unknown): string | null {
	return typeof value === 'string' ? value : null;
}
