import {pager, toPage} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {inspectMail} from '../../dashboard/look.ts';
import {
	act,
	badge,
	code,
	count,
	facts,
	input,
	join,
	name,
	nothing,
	section,
	select,
	type Tone,
	table,
	textarea,
	time,
} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {kindOf, replyRows, reportRows, toEvidence} from '../../inbound/reports/explain.ts';
import {inSlice} from '../../kit/turns.ts';
import {createClassify} from '../../mail/classify-reply.ts';
import {type Phase, phases} from '../../mail/outcome.ts';
import {keptLength, type Report, type ReportKind, type RetentionReason} from '../../mail/report.ts';
import {operatorMail, retentionReason, reviewOf, tokenProblems} from './kept-mail.ts';
import {findKept, type KeptMail, listKept, readRaw} from './kept-store.ts';

/** Returns the pages on reports that match no message, and on how messages and replies are classified. */
export const returnedMailPages = (parts: DashboardParts): readonly Route[] => [
	...returnedPages(parts),
	...explainPages(parts),
];

const path = '/returned';
const perPage = 50;

/**
 * Returns the pages on reports that match no message of ours. They belong to no workspace, so users of a single
 * workspace can only have messages explained.
 */
function returnedPages({reader}: DashboardParts): readonly Route[] {
	async function find(id = ''): Promise<KeptMail | undefined> {
		const [mail] = /^[0-9a-f]{64}$/.test(id) ? await findKept(reader, id) : [];
		return mail;
	}

	async function list({query, signedIn, now}: Visit): Promise<Answer> {
		if (signedIn.user.workspaceId !== null) {
			return go(`${path}/explain`);
		}
		const after = query.get('after');
		const previous = after === null ? undefined : await find(after);
		const {rows, last} = toPage(await listKept(reader, perPage + 1, previous), perPage);
		const content = html`${keptTable(rows, now)}${pager(path, query, last?.id ?? null)}`;
		return {
			kind: 'page',
			place: 'returned',
			title: 'Returned mail',
			actions: html`<a class="button" href="${path}/explain">Explain a message or a reply</a>`,
			content: html`<p class="soft">Reports that match no message, messages that could not be read completely, and messages to postmaster@ and abuse@. A report that matches a message is shown on the page of that message.</p>${live('kept', after === null ? path : null, content)}`,
		};
	}

	async function show({params: {id}, now}: Visit): Promise<Answer> {
		const mail = await find(id);
		if (mail === undefined) {
			return missing('Message not found. The oldest ones are removed when too many are stored.');
		}
		return {
			kind: 'page',
			place: 'returned',
			title: plainName(titleOf(mail)),
			actions: html`<a class="button" href="${path}/${mail.id}/raw">Save as .eml</a>`,
			content: keptMail(mail, await readRaw(reader, mail.id), now),
		};
	}

	async function save({params: {id = ''}}: Visit): Promise<Answer> {
		const raw = (await find(id)) && (await readRaw(reader, id));
		return raw === undefined
			? missing('Message not found.')
			: {kind: 'content', type: 'message/rfc822', body: raw, saveAs: `${id.slice(0, 12)}.eml`};
	}

	return [
		{method: 'GET', path, role: 'viewer', answer: list},
		{method: 'GET', path: `${path}/:id`, role: 'viewer', everywhere: true, answer: show},
		{method: 'GET', path: `${path}/:id/raw`, role: 'viewer', everywhere: true, answer: save},
	];
}

function keptTable(rows: readonly KeptMail[], now: number): Html {
	return table<KeptMail>({
		label: 'Returned mail',
		link: ({id}) => `${path}/${id}`,
		columns: [
			// The recipient that a report names, or the author of a message to the operator.
			{title: 'About', cell: mail => name(recipientOf(mail) ?? senderOf(mail)), cut: true},
			{title: 'Retained as', cell: ({kept}) => keptBadge(kept), wide: true},
			{title: 'Reason', cell: mail => name(operatorMail(mail)?.subject ?? retentionReason(mail)), cut: true},
			{title: 'Kind', cell: mail => reviewOf(mail).kind.replace('_', ' '), wide: true},
			{title: 'From', cell: mail => name(senderOf(mail)), cut: true, wide: true},
			{title: 'Source', cell: ({source}) => source, wide: true},
			{title: 'Received', cell: ({receivedAt}) => time(receivedAt, now), right: true},
		],
		rows,
		empty: html`<p>No returned mail: every report matched a message.</p><p>Reports arrive through MAILCTL_INBOUND_LISTEN or MAILCTL_BOUNCE_MAILBOX, or are imported with <code>mailctl bounce ingest</code>.</p>`,
	});
}

const tones: Readonly<Record<RetentionReason, Tone>> = {unmatched: 'idle', unread: 'warn', operator: 'busy'};
const labels: Readonly<Record<RetentionReason, string>> = {
	unmatched: 'unmatched',
	unread: 'unread',
	operator: 'for you',
};

const keptBadge = (kept: RetentionReason): Html => badge(labels[kept], tones[kept]);

const titleOf = (mail: KeptMail): string =>
	recipientOf(mail) ? `About ${recipientOf(mail)}` : `From ${senderOf(mail)}`;

const recipientOf = (mail: KeptMail): string | null => reviewOf(mail).reports[0]?.recipient ?? null;

function senderOf(mail: KeptMail): string {
	return (
		operatorMail(mail)?.from ?? (mail.mailFrom || (mail.mailFrom === '' ? 'the null sender' : 'an unknown sender'))
	);
}

/** How many octets of a message are shown. The rest is in the file that can be saved. */
const maxShown = 32 * 1024;

/** Shows a retained message: its envelope, why it is retained, how it was classified, and its source. */
function keptMail(mail: KeptMail, raw: Buffer | undefined, now: number): Html {
	const review = reviewOf(mail);
	const header = operatorMail(mail);
	const envelope = facts([
		['Received', html`${time(mail.receivedAt, now)} by ${mail.source}`],
		['Envelope from', mail.mailFrom === '' ? 'the null sender' : mail.mailFrom && name(mail.mailFrom)],
		['Envelope to', mail.rcptTo.length === 0 ? null : name(mail.rcptTo.join(', '))],
		['Author', header?.from ? name(header.from) : null],
		['Subject', header?.subject ? name(header.subject) : null],
		['Retained as', `${mail.kept}: ${retentionReason(mail)}`],
		['Size', `${count(mail.size)} octets`],
		['Id', code(mail.id.slice(0, 12))],
	]);
	const tried = review.tried.map(
		({via, id, fault}) =>
			html`<li>${code(id)} <span class="soft">by ${via.replaceAll('_', ' ')}:</span> ${tokenProblems[fault]}</li>`,
	);
	const classification = html`<p>${kindOf(review)}</p>${reportCards(review.kind, review.reports)}`;
	return join([
		html`<div class="card">${envelope}</div>`,
		section('Classification', classification),
		tried.length === 0
			? nothing
			: section(
					'Why it matches no message',
					html`<p>It names these recipients, but no token proves that it is about them:</p><ul class="links">${tried}</ul>`,
				),
		raw === undefined ? nothing : section('Source', source(raw, mail.size)),
	]);
}

/** Shows what a message reports about each recipient. */
function reportCards(kind: ReportKind, reports: readonly Report[]): Html {
	return html`<div class="grid">${reports.map(report => {
		const {recipient, originalRecipient} = report;
		const about = recipient === null ? html`Unnamed recipient` : name(recipient);
		const sentTo =
			originalRecipient === null ? nothing : html` <span class="soft">sent to</span> ${name(originalRecipient)}`;
		return html`<article class="card"><h3>${about}${sentTo}</h3>${explained(reportRows(kind, report))}</article>`;
	})}</div>`;
}

/** Shows rows with names in sentence case, and values as they are. */
function explained(rows: ReturnType<typeof reportRows>): Html {
	return facts(rows.map(([title, value]) => [`${title[0]?.toUpperCase()}${title.slice(1)}`, name(value)]));
}

function source(raw: Buffer, size: number): Html {
	const text = raw.subarray(0, maxShown).toString('utf8');
	const stored = Math.min(raw.length, keptLength);
	const note =
		size > maxShown
			? html`<p class="soft">The first ${count(maxShown)} of ${count(size)} octets are shown; ${count(stored)} are stored.</p>`
			: nothing;
	return html`${note}<pre tabindex="0" role="region" aria-label="Source">
${text}</pre>`;
}

const explainPath = '/returned/explain';
/** How many octets are read, as many as the listener accepts. A report has its information at the beginning. */
const maxRead = 10 * 1024 * 1024;

type Explanation = {readonly problem?: string; readonly content: Html};

/** Returns the pages that explain how a message or a reply would be classified. Nothing is stored or changed. */
function explainPages({bounceRules}: DashboardParts): readonly Route[] {
	function page({form, query}: Visit, {problem, content}: Explanation): Answer {
		return {
			kind: 'page',
			...(problem !== undefined && {problem}),
			place: 'returned',
			title: 'Explain a message or a reply',
			actions: html`<a class="button" href="/returned">Returned mail</a>`,
			content: join([
				html`<p class="soft">See how a bounce, a complaint or a mail server's reply is classified, and by which rule. Nothing is stored, and no recipient changes.</p>`,
				content,
				section('A message', html`<div class="card stack">${mailForm(form)}</div>`),
				section('A reply', html`<div class="card stack">${replyForm(form, query)}</div>`),
			]),
		};
	}

	async function readMail({form, file, signedIn}: Visit): Promise<Explanation> {
		const raw = file?.content ?? Buffer.from(form.get('mail')?.trimStart() ?? '');
		if (raw.length === 0) {
			return {
				problem: 'No message: paste its source, including the header, or choose a file.',
				content: nothing,
			};
		}
		const request = {raw: raw.subarray(0, maxRead), rules: bounceRules()};
		const result = await inspectMail(signedIn.user.id, 'report', request);
		if (!result.ok) {
			return {problem: `The message cannot be explained: ${result.fault}.`, content: nothing};
		}
		const {seen: reading} = result;
		const note =
			raw.length > maxRead
				? html`<p class="notice warn">Only the first ${count(maxRead)} of ${count(raw.length)} octets were read. <code>mailctl bounce explain FILE</code> reads all of it.</p>`
				: null;
		const fault =
			reading.fault === null ? '' : ` It has no effect, because it was only read in part: ${reading.fault}.`;
		const content = html`${note}<p>${kindOf(reading)}${fault}</p>${reportCards(reading.kind, reading.reports)}`;
		return {content: section('Classification', content)};
	}

	function readReply({form}: Visit): Explanation {
		const phase: Phase = phases.find(known => known === form.get('phase')) ?? 'rcpt';
		const read = toEvidence(form.get('reply')?.trim() ?? '', phase, form.get('mx')?.trim() || null);
		if (!read.ok) {
			const [first = '', ...rest] = read.problem;
			return {problem: `${first.toUpperCase()}${rest.join('')}: ${read.fix}.`, content: nothing};
		}
		const rows = replyRows(createClassify(bounceRules())(read.evidence));
		return {content: section('Classification', html`<div class="card">${explained(rows)}</div>`)};
	}

	return [
		{
			method: 'GET',
			path: explainPath,
			role: 'viewer',
			answer: async visit => page(visit, {content: nothing}),
		},
		{
			method: 'POST',
			path: explainPath,
			role: 'viewer',
			file: true,
			async answer(visit) {
				const read = visit.form.has('reply') ? readReply(visit) : await readMail(visit);
				// The page repeats what was pasted, and escaping megabytes takes time.
				return await inSlice(() => page(visit, read));
			},
		},
	];
}

function mailForm(form: URLSearchParams): Html {
	const hint = 'The whole message with its header, as from “Show original” or “View source” in a mail program.';
	const fields = join([
		textarea({name: 'mail', label: 'Message source', value: form.get('mail') ?? '', hint}, 10),
		input({
			name: 'file',
			label: 'Or a file (.eml)',
			type: 'file',
			hint: `Only the first ${count(maxRead)} octets are read.`,
		}),
	]);
	return act({to: explainPath, label: 'Explain the message', fields, file: true});
}

/** Returns the form for a reply. A link may fill it in: `?reply=550 …`. */
function replyForm(form: URLSearchParams, query: URLSearchParams): Html {
	const initial = (key: string) => form.get(key) ?? query.get(key) ?? '';
	const reply = {
		name: 'reply',
		label: 'Reply',
		required: true,
		value: initial('reply'),
		placeholder: '550 5.1.1 no such user',
	};
	const choices = phases.map(value => ({value, label: value}));
	const fields = join([
		input(reply),
		select({name: 'phase', label: 'SMTP command', value: initial('phase') || 'rcpt'}, choices),
		input({name: 'mx', label: 'Mail server (optional)', value: initial('mx'), placeholder: 'mx.example.net'}),
	]);
	return act({to: explainPath, label: 'Explain the reply', fields});
}
