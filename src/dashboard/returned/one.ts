import {letterOf, reviewOf, tokenFaults, whyOf} from '../../admin/kept-mail.ts';
import {type Html, html} from '../../hosted/html.ts';
import {keptLength, type Report, type ReportKind} from '../../mail/report.ts';
import {kindOf, reportRows} from '../../report/explain.ts';
import type {KeptMail} from '../../store/inbound-mails.ts';
import {code, count, facts, join, name, nothing, section, time} from '../markup.ts';

/** Octets of a mail that are shown; the rest is in the file that one can save. */
const mostShown = 32 * 1024;

/** A mail that is kept: how it came, why it is kept, how it was read, and what it says. */
export function keptMail(mail: KeptMail, raw: Buffer | undefined, now: number): Html {
	const review = reviewOf(mail);
	const letter = letterOf(mail);
	const came = facts([
		['Received', html`${time(mail.receivedAt, now)} by ${mail.source}`],
		['Envelope from', mail.mailFrom === '' ? 'the null sender' : mail.mailFrom && name(mail.mailFrom)],
		['Envelope to', mail.rcptTo.length === 0 ? null : name(mail.rcptTo.join(', '))],
		['Written by', letter?.from ? name(letter.from) : null],
		['Subject', letter?.subject ? name(letter.subject) : null],
		['Kept as', `${mail.kept}: ${whyOf(mail)}`],
		['Size', `${count(mail.size)} octets`],
		['Id', code(mail.id.slice(0, 12))],
	]);
	const tried = review.tried.map(
		({via, id, fault}) =>
			html`<li>${code(id)} <span class="soft">by ${via.replaceAll('_', ' ')}:</span> ${tokenFaults[fault]}</li>`,
	);
	const read = html`<p>${kindOf(review)}</p>${reportCards(review.kind, review.reports)}`;
	return join([
		html`<div class="card">${came}</div>`,
		section('How it was read', read),
		tried.length === 0
			? nothing
			: section(
					'Why it matches no message',
					html`<p>It names copies, but no name proves that the mail is about them:</p><ul class="links">${tried}</ul>`,
				),
		raw === undefined ? nothing : section('The mail', source(raw, mail.size)),
	]);
}

/** What a mail says of each recipient. */
export function reportCards(kind: ReportKind, reports: readonly Report[]): Html {
	return html`<div class="grid">${reports.map(report => {
		const {recipient, originalRecipient} = report;
		const about = recipient === null ? html`A recipient that is not named` : name(recipient);
		const first =
			originalRecipient === null ? nothing : html` <span class="soft">sent to</span> ${name(originalRecipient)}`;
		return html`<article class="card"><h3>${about}${first}</h3>${explained(reportRows(kind, report))}</article>`;
	})}</div>`;
}

/** Names in sentence case, values as they are. */
export function explained(rows: ReturnType<typeof reportRows>): Html {
	return facts(rows.map(([title, value]) => [`${title[0]?.toUpperCase()}${title.slice(1)}`, name(value)]));
}

function source(raw: Buffer, size: number): Html {
	const text = raw.subarray(0, mostShown).toString('utf8');
	const there = Math.min(raw.length, keptLength);
	const rest =
		size > mostShown
			? html`<p class="soft">The first ${count(mostShown)} octets of ${count(size)}; ${count(there)} are kept.</p>`
			: nothing;
	return html`${rest}<pre tabindex="0" role="region" aria-label="The mail">
${text}</pre>`;
}
