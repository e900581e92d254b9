import type {Report} from '../mail/report.ts';

/** What a mail says of one recipient, as scripts see it. */
export function reportView(report: Report) {
	return {
		recipient: report.recipient,
		original_recipient: report.originalRecipient,
		action: report.action,
		status: report.status,
		type: report.type,
		category: report.category,
		suppresses: report.suppresses,
		reason: report.reason,
		code: report.code,
		host: report.host,
		rule: report.rule,
		matched: report.matched,
		feedback_type: report.feedbackType,
	};
}
