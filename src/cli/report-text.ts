import type {StoredReport} from '../store/reports.ts';
import {folded, printable, shortTime, wrapped} from './text.ts';

/** What came back about a copy, for people: what it is and says, how it was judged, and the text of it. */
export function reportLines({kind, category, rule, matched, detail, createdAt}: StoredReport, width: number): string[] {
	const action = text(detail.action);
	const what = action === null || action === 'none' ? kinds[kind] : `${action} (${kinds[kind]})`;
	const said = [what, text(detail.status), category].filter(each => each !== null).join(', ');
	const by = rule === null ? null : `by rule ${rule}${matched === null ? '' : ` on "${matched}"`}`;
	const named = text(detail.recipient);
	const found = text(detail.via)?.replaceAll('_', ' ');
	const notes = [
		by,
		named === null ? null : `names ${named}`,
		text(detail.host),
		found === undefined ? null : `found by ${found}`,
	].filter(each => each !== null);
	const reason = text(detail.reason) ?? '';
	return [
		`  report ${shortTime(text(detail.received_at) ?? createdAt)}  ${printable(said)}`,
		...(notes.length === 0 ? [] : wrapped(printable(notes.join(', ')), width, '     ')),
		...(reason === '' ? [] : folded(printable(reason), width, '     ')),
	];
}

const kinds: Readonly<Record<StoredReport['kind'], string>> = {
	dsn: 'DSN',
	text: 'bounce in words',
	arf: 'feedback report',
	auto_reply: 'auto-reply',
	other: 'mail',
};

/** As a script reads it. */
export function storedReportView(report: StoredReport) {
	const {detail, kind, category, rule, matched} = report;
	return {
		id: report.id,
		at: text(detail.received_at) ?? report.createdAt,
		kind,
		action: text(detail.action),
		type: text(detail.type),
		category,
		status: text(detail.status),
		code: typeof detail.code === 'number' ? detail.code : null,
		host: text(detail.host),
		rule,
		matched,
		suppresses: detail.suppresses === true,
		recipient: text(detail.recipient),
		reason: text(detail.reason),
		feedback_type: text(detail.feedback_type),
		source: text(detail.source),
		via: text(detail.via),
	};
}

function text(value: unknown): string | null {
	return typeof value === 'string' ? value : null;
}
