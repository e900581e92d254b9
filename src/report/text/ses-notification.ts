import type {Detector, Finding} from './finding.ts';

type Entry = {emailAddress?: unknown; status?: unknown; diagnosticCode?: unknown};

/** Amazon SES by SNS: the notification as JSON in the text of a mail. */
export const readSesNotification: Detector = ({field, said}) => {
	const notice = /amazon|sns/i.test(`${field('from')} ${field('x-amz-sns-message-id')}`) ? parseObject(said) : null;
	const kind = notice?.notificationType ?? notice?.eventType;
	if (kind === 'Complaint') {
		const feedbackType = textOf(objectOf(notice?.complaint).complaintFeedbackType) || 'abuse';
		return entriesOf(objectOf(notice?.complaint).complainedRecipients).map(entry => ({
			...findingOf(entry),
			action: 'complaint',
			feedbackType,
		}));
	}
	if (kind === 'Bounce') {
		return entriesOf(objectOf(notice?.bounce).bouncedRecipients).map(findingOf);
	}
	return kind === 'Delivery'
		? (listOf(objectOf(notice?.delivery).recipients) as unknown[]).map(address => ({
				recipient: textOf(address),
				text: '',
				action: 'delivered',
			}))
		: [];
};

function findingOf({emailAddress, status, diagnosticCode}: Entry): Finding {
	return {
		recipient: textOf(emailAddress),
		text: `${textOf(diagnosticCode)} ${textOf(diagnosticCode) ? '' : textOf(status)}`.trim(),
	};
}

/** SNS puts a footer behind the object, and some hosts break its lines. */
function parseObject(text: string): Record<string, unknown> | null {
	const start = text.indexOf('{');
	const end = text.lastIndexOf('}');
	try {
		return objectOf(JSON.parse(text.slice(start, end + 1).replaceAll('\n', '')));
	} catch {
		return null;
	}
}

function objectOf(value: unknown): Record<string, unknown> {
	return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function listOf(value: unknown): unknown[] {
	return Array.isArray(value) ? value.slice(0, 100) : [];
}

function entriesOf(value: unknown): Entry[] {
	return listOf(value).map(objectOf);
}

function textOf(value: unknown): string {
	return typeof value === 'string' ? value : '';
}
