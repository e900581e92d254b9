import {type DeliveryStatus, looksLikeDeliveryStatus, readDeliveryStatus} from './delivery-status.ts';
import {type Field, leavesOf, type Mail, type Part, readFields} from './mime.ts';
import {readSesNotification, type SesNotification} from './ses-notification.ts';
import {isReturned, returnedHeaders} from './text/returned.ts';

/** What a mail says in fields that are made for programs. */
export type Structured = {
	/** RFC 3464; null: there is none. */
	readonly status: DeliveryStatus | null;
	/** The fields of a feedback report, RFC 5965; null: there is none. */
	readonly feedback: readonly Field[] | null;
	readonly ses: SesNotification | null;
	/** The header of each returned mail. */
	readonly returned: ReadonlyArray<readonly Field[]>;
};

export function readStructured(mail: Mail): Structured {
	const leaves = leavesOf(mail.root);
	const ses = readSesNotification(leaves);
	return {
		status: statusOf(leaves) ?? ses?.status ?? null,
		feedback: feedbackOf(leaves),
		ses,
		returned: [...returnedHeaders(leaves), ...(ses ? [ses.returned] : [])],
	};
}

const isStatus = ({type}: Part) => /^(?:message|text|application)\/(?:global-)?delivery-status$/.test(type);

/** A status behind the returned mail may belong to it: boundaries are used again. */
function statusOf(leaves: readonly Part[]): DeliveryStatus | null {
	const returned = leaves.findIndex(({type}) => isReturned(type));
	const before = returned === -1 ? leaves : leaves.slice(0, returned);
	const parts = before.some(isStatus) ? before.filter(isStatus) : leaves.filter(isStatus);
	const texts =
		parts.length > 0
			? parts.map(textOf)
			: leaves
					.filter(isText)
					.map(part => part.text())
					.filter(looksLikeDeliveryStatus);
	return texts.length > 0 ? readDeliveryStatus(texts.join('\n\n')) : null;
}

/** Blank lines between the fields part nothing here. */
function feedbackOf(leaves: readonly Part[]): Field[] | null {
	const part = leaves.find(({type}) => /^(?:message|text|application)\/feedback-report$/.test(type));
	const text = part
		? textOf(part)
		: leaves
				.filter(isText)
				.map(part => part.text())
				.find(looksLikeFeedback);
	return text === undefined ? null : readFields(Buffer.from(text.replace(/\n(?:[ \t]*\n)+/g, '\n')));
}

/** Where the blank line behind a part's header is missing, its first fields stand in the header. */
function textOf(part: Part): string {
	const strays = part.fields.filter(({name}) => !name.startsWith('content-'));
	return [...strays.map(({name, value}) => `${name}: ${value}`), part.text()].join('\n');
}

/** Some mailers call the fields a plain text, or know no type for them. */
function isText({type}: Part): boolean {
	return type === 'text/plain' || type === 'application/octet-stream';
}

function looksLikeFeedback(text: string): boolean {
	const head = text.slice(0, 8192);
	return /^feedback-type[ \t]*:/im.test(head) && /^(?:user-agent|version)[ \t]*:/im.test(head);
}
