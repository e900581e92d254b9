import {type Html, html} from '../../hosted/html.ts';
import {bufferOf} from '../../kit/text.ts';
import {framedContent, textContent as textPart} from '../mail-frame.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {actionsOf, actRoutes} from './acts.ts';
import {headersContent, previewContent, sourceContent, textContent, variablesContent} from './content.ts';
import {createMailReader, type Missing} from './mail.ts';
import {
	messagePage,
	noMessage,
	type Opened,
	openMessage,
	recipientChips,
	type Shown,
	type Tab,
	tabPath,
} from './one.ts';
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
		const isMoving = opened.recipients.some(recipient => recipient.next_attempt_at !== null);
		return await shown(visit, opened, {tab: '', content, problem, isMoving});
	}

	/** Answers of the mail of the copy that is meant. `absent`: it cannot be had. */
	async function withMail<Mail extends object>(
		visit: Visit,
		readMail: (workspaceId: string, opened: Opened) => Promise<Mail | Missing>,
		present: (opened: Opened, mail: Mail) => Answer | Promise<Answer>,
		absent: (opened: Opened, why: string) => Answer | Promise<Answer>,
	): Promise<Answer> {
		const opened = await openMessage(parts, visit);
		if (opened === null) {
			return noMessage;
		}
		if (opened.isErased) {
			return await absent(opened, 'The recipient was erased, and what the message said with them.');
		}
		const mail = await readMail(visit.workspace.id, opened);
		return 'missing' in mail ? await absent(opened, mail.missing) : await present(opened, mail);
	}

	/** A tab that shows something of the mail. */
	const mailTab = <Mail extends object>(
		tab: Tab,
		readMail: (workspaceId: string, opened: Opened) => Promise<Mail | Missing>,
		contentOf: (looked: Pick<Opened, 'message'> & Pick<Visit, 'query'> & {readonly mail: Mail}) => Html,
	): Route => ({
		method: 'GET',
		path: `/messages/:id/${tab}`,
		role: 'viewer',
		answer: visit => {
			const page = (opened: Opened, content: Html) => {
				const chips = recipientChips(opened, tabPath(opened.message.id, tab), visit.query);
				return shown(visit, opened, {tab, content: html`${chips}${content}`});
			};
			return withMail(
				visit,
				readMail,
				(opened, mail) => page(opened, contentOf({message: opened.message, mail, query: visit.query})),
				(opened, why) => page(opened, html`<div class="empty"><p>${why}</p></div>`),
			);
		},
	});

	/** For answers that are not pages: missing where the mail is not available. */
	const ofMail = <Mail extends object>(
		path: string,
		readMail: (workspaceId: string, opened: Opened, visit: Visit) => Promise<Mail | Missing>,
		contentOf: (visit: Visit, mail: Mail, opened: Opened) => Answer,
	): Route => ({
		method: 'GET',
		path: `/messages/:id/${path}`,
		role: 'viewer',
		answer: visit =>
			withMail(
				visit,
				(workspaceId, opened) => readMail(workspaceId, opened, visit),
				(opened, mail) => contentOf(visit, mail, opened),
				() => noMessage,
			),
	});

	return [
		{method: 'GET', path: '/messages/:id', role: 'viewer', answer: visit => timeline(visit)},
		mailTab('preview', read.shown, previewContent),
		mailTab('text', read.shown, textContent),
		mailTab('headers', read.shown, headersContent),
		mailTab('source', read.raw, sourceContent),
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
		ofMail('frame', read.shown, ({query, request}, {html: shownHtml, text}, {message}) =>
			// Alone in a window its links could lead somewhere.
			request.headers['sec-fetch-dest'] === 'document'
				? go(tabPath(message.id, 'preview'))
				: shownHtml === null
					? textPart(text ?? '')
					: framedContent(bufferOf(shownHtml.framed), query.get('images') === '1'),
		),
		ofMail('raw', read.raw, (_visit, {raw}, {message}) => ({
			kind: 'content',
			type: 'message/rfc822',
			body: raw,
			saveAs: `${message.id}.eml`,
		})),
		ofMail(
			'attachments/:n',
			(workspaceId, opened, {params: {n}}) => read.file(workspaceId, opened, Number(n)),
			(_visit, {name, content}) => ({
				kind: 'content',
				type: 'application/octet-stream',
				body: bufferOf(content),
				saveAs: name,
			}),
		),
		...actRoutes(parts, timeline),
	];
}
