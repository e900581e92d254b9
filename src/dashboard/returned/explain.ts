import {inSlice} from '../../api/turns.ts';
import {createClassify} from '../../bounce/classify.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type Phase, phases} from '../../mail/outcome.ts';
import {evidenceOf, kindOf, replyRows} from '../../report/explain.ts';
import {lookAt} from '../look.ts';
import {act, count, input, join, nothing, section, select, textarea} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import type {Answer, Route, Visit} from '../route.ts';
import {explained, reportCards} from './one.ts';

const path = '/returned/explain';
/** Octets that are read, as many as the listener takes; what a report says is at its beginning. */
const mostRead = 10 * 1024 * 1024;

type Read = {readonly problem?: string; readonly content: Html};

/** Shows how a mail or a host's reply would be read, and why. Nothing is kept and nothing follows. */
export function explainPages({bounceRules}: DashboardParts): readonly Route[] {
	function page({form, query}: Visit, {problem, content}: Read): Answer {
		return {
			kind: 'page',
			...(problem !== undefined && {status: 422, problem}),
			place: 'returned',
			title: 'Explain a mail or a reply',
			actions: html`<a class="button" href="/returned">Returned mail</a>`,
			content: join([
				html`<p class="soft">See how a bounce, a complaint or the refusal of a host is read, and by which rule. Nothing is kept and no recipient changes.</p>`,
				content,
				section('A mail', html`<div class="card stack">${mailForm(form)}</div>`),
				section('A reply', html`<div class="card stack">${replyForm(form, query)}</div>`),
			]),
		};
	}

	async function readMail({form, file, signedIn}: Visit): Promise<Read> {
		const raw = file?.content ?? Buffer.from(form.get('mail')?.trimStart() ?? '');
		if (raw.length === 0) {
			return {problem: 'There is no mail: paste its source, headers included, or choose its file.', content: nothing};
		}
		const asked = {raw: raw.subarray(0, mostRead), rules: bounceRules()};
		const looked = await lookAt(signedIn.user.id, 'report', asked);
		if (!looked.ok) {
			return {problem: `The mail cannot be explained: ${looked.fault}.`, content: nothing};
		}
		const {seen: reading} = looked;
		const rest =
			raw.length > mostRead
				? html`<p class="notice warn">Only the first ${count(mostRead)} of ${count(raw.length)} octets were read. <code>mailctl bounce explain FILE</code> reads all of it.</p>`
				: null;
		const fault =
			reading.fault === null ? '' : ` Nothing follows from it, for it was not read to its end: ${reading.fault}.`;
		const told = html`${rest}<p>${kindOf(reading)}${fault}</p>${reportCards(reading.kind, reading.reports)}`;
		return {content: section('How it is read', told)};
	}

	function readReply({form}: Visit): Read {
		const phase: Phase = phases.find(one => one === form.get('phase')) ?? 'rcpt';
		const read = evidenceOf(form.get('reply')?.trim() ?? '', phase, form.get('mx')?.trim() || null);
		if (!read.ok) {
			const [first = '', ...rest] = read.fault;
			return {problem: `${first.toUpperCase()}${rest.join('')}: ${read.fix}.`, content: nothing};
		}
		const rows = replyRows(createClassify(bounceRules())(read.evidence));
		return {content: section('How it is read', html`<div class="card">${explained(rows)}</div>`)};
	}

	return [
		{
			method: 'GET',
			path,
			role: 'viewer',
			withoutWorkspace: true,
			answer: async visit => page(visit, {content: nothing}),
		},
		{
			method: 'POST',
			path,
			role: 'viewer',
			withoutWorkspace: true,
			file: true,
			async answer(visit) {
				const read = visit.form.has('reply') ? readReply(visit) : await readMail(visit);
				// What was pasted is shown again: a megabyte of marks to be escaped.
				return await inSlice(() => page(visit, read));
			},
		},
	];
}

function mailForm(form: URLSearchParams): Html {
	const hint = 'As it came, with its headers: “Show original” or “View source” of a mail program.';
	const fields = join([
		textarea({name: 'mail', label: 'Source of the mail', value: form.get('mail') ?? '', hint}, 10),
		input({
			name: 'file',
			label: 'Or its file (.eml)',
			type: 'file',
			hint: `Of a larger one the first ${count(mostRead)} octets are read.`,
		}),
	]);
	return act({to: path, label: 'Explain the mail', fields, file: true});
}

/** A link may bring the reply along: `?reply=550 …`. */
function replyForm(form: URLSearchParams, query: URLSearchParams): Html {
	const given = (key: string) => form.get(key) ?? query.get(key) ?? '';
	const reply = {
		name: 'reply',
		label: 'Reply',
		required: true,
		value: given('reply'),
		placeholder: '550 5.1.1 no such user',
	};
	const choices = phases.map(value => ({value, label: value}));
	const fields = join([
		input(reply),
		select({name: 'phase', label: 'Answer to', value: given('phase') || 'rcpt'}, choices),
		input({name: 'mx', label: 'Host, if known', value: given('mx'), placeholder: 'mx.example.net'}),
	]);
	return act({to: path, label: 'Explain the reply', fields});
}
