import {type Html, html} from '../../hosted/html.ts';
import {mailContent, textContent as textPart} from '../mail-frame.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {actionsOf, actRoutes} from './acts.ts';
import {headersContent, type Looked, previewContent, sourceContent, textContent, variablesContent} from './content.ts';
import {createMailReader, type ShownMail} from './mail.ts';
import {copyChips, messagePage, noMessage, type Opened, openMessage, type Shown, type Tab, tabPath} from './one.ts';
import {timelineOf} from './timeline.ts';

/** The pages of one message, and what may be done with it. */
export function oneMessagePages(parts: DashboardParts): readonly Route[] {
	const read = createMailReader(parts);

	async function shown(visit: Visit, opened: Opened, what: Omit<Shown, 'actions'>): Promise<Answer> {
		return messagePage(opened, visit, {...what, actions: await actionsOf(parts, visit, opened)});
	}

	async function timeline(visit: Visit, problem: string | null = null): Promise<Answer> {
		const opened = await openMessage(parts, visit);
		if (opened === null) {
			return noMessage;
		}
		const content = await timelineOf(parts, opened, visit.now);
		const isMoving = opened.copies.some(copy => copy.next_attempt_at !== null);
		return await shown(visit, opened, {tab: '', content, problem, isMoving});
	}

	/** Answers of the mail of the copy that is meant. `absent`: it cannot be had. */
	async function withMail(
		visit: Visit,
		present: (opened: Opened, mail: ShownMail) => Answer | Promise<Answer>,
		absent: (opened: Opened, why: string) => Answer | Promise<Answer>,
	): Promise<Answer> {
		const opened = await openMessage(parts, visit);
		if (opened === null) {
			return noMessage;
		}
		if (opened.isErased) {
			return await absent(opened, 'The recipient was erased, and what the message said with them.');
		}
		const mail = await read(visit.workspace.id, opened);
		return 'missing' in mail ? await absent(opened, mail.missing) : await present(opened, mail);
	}

	/** A tab that shows something of the mail. */
	const mailTab = (tab: Tab, contentOf: (looked: Looked) => Html): Route => ({
		method: 'GET',
		path: `/messages/:id/${tab}`,
		role: 'viewer',
		answer: visit => {
			const page = (opened: Opened, content: Html) => {
				const chips = copyChips(opened, tabPath(opened.message.id, tab), visit.query);
				return shown(visit, opened, {tab, content: html`${chips}${content}`});
			};
			return withMail(
				visit,
				(opened, mail) => page(opened, contentOf({message: opened.message, mail, query: visit.query})),
				(opened, why) => page(opened, html`<div class="empty"><p>${why}</p></div>`),
			);
		},
	});

	/** For answers that are not pages: missing where the mail is not available. */
	const ofMail = (path: string, contentOf: (visit: Visit, mail: ShownMail, opened: Opened) => Answer): Route => ({
		method: 'GET',
		path: `/messages/:id/${path}`,
		role: 'viewer',
		answer: visit =>
			withMail(
				visit,
				(opened, mail) => contentOf(visit, mail, opened),
				() => noMessage,
			),
	});

	return [
		{method: 'GET', path: '/messages/:id', role: 'viewer', answer: visit => timeline(visit)},
		mailTab('preview', previewContent),
		mailTab('text', textContent),
		mailTab('headers', headersContent),
		mailTab('source', sourceContent),
		{
			method: 'GET',
			path: '/messages/:id/variables',
			role: 'viewer',
			async answer(visit) {
				const opened = await openMessage(parts, visit);
				return opened
					? await shown(visit, opened, {tab: 'variables', content: variablesContent(opened.message)})
					: noMessage;
			},
		},
		ofMail('frame', ({query, request}, mail, {message}) =>
			// Alone in a window its links could lead somewhere.
			request.headers['sec-fetch-dest'] === 'document'
				? go(tabPath(message.id, 'preview'))
				: mail.html === null
					? textPart(mail.text ?? '')
					: mailContent(mail.html, query.get('images') === '1', mail.files),
		),
		ofMail('raw', (_visit, {raw}, {message}) => ({
			kind: 'content',
			type: 'message/rfc822',
			body: raw,
			saveAs: `${message.id}.eml`,
		})),
		ofMail('attachments/:n', ({params: {n = ''}}, {files}) => {
			const file = files[Number(n)];
			return file
				? {kind: 'content', type: 'application/octet-stream', body: file.content(), saveAs: file.name}
				: noMessage;
		}),
		...actRoutes(parts, timeline),
	];
}
