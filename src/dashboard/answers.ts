import type {FastifyReply, FastifyRequest} from 'fastify';
import {html} from '../hosted/html.ts';
import type {Assets} from './assets.ts';
import {layout, type Visitor} from './layout.ts';
import {nothing} from './markup.ts';
import type {OpenAnswer, Page} from './route.ts';
import {cookieOptions, formOwner, noticeCookie, setSession} from './visitor.ts';
import type {WorkspacePaths} from './workspace-paths.ts';

const nonceLength = 16;
const noticeSeconds = 60;

/** What a page needs besides its answer. */
type PageTools = {
	readonly assets: Assets;
	readonly random: (size: number) => Buffer;
	readonly paths: WorkspacePaths;
};

/** Sends the answer to a request. Browsers and proxies must not store it. */
export function sendAnswer(
	request: FastifyRequest,
	reply: FastifyReply,
	answer: OpenAnswer,
	{visitor, ...tools}: PageTools & {readonly visitor: Visitor | null},
): FastifyReply {
	reply.headers({
		'cache-control': 'no-store',
		'referrer-policy': 'same-origin',
		'x-content-type-options': 'nosniff',
		'x-robots-tag': 'noindex',
	});
	if (answer.session !== undefined) {
		setSession(request, reply, answer.session);
	}
	switch (answer.kind) {
		case 'go':
			if (answer.notice !== undefined) {
				reply.setCookie(noticeCookie, answer.notice, {...cookieOptions(request), maxAge: noticeSeconds});
			}
			return reply.redirect(tools.paths.inPath(answer.to, answer.workspace ?? visitor?.workspace ?? null), 303);
		case 'content':
			reply.headers({'content-security-policy': answer.policy ?? "default-src 'none'", ...answer.headers});
			if (answer.saveAs !== undefined) {
				reply.header(
					'content-disposition',
					`attachment; filename="${answer.saveAs.replace(/[^\w.@-]/g, '_')}"`,
				);
			}
			return reply
				.code(answer.status ?? 200)
				.type(answer.type)
				.send(answer.body);
		case 'missing':
			return sendPage(request, reply, tools, visitor, {
				status: 404,
				title: 'Not found',
				content: html`<p>${answer.what}</p><p><a href="/">Go to the dashboard</a></p>`,
			});
		case 'page':
			return sendPage(request, reply, tools, visitor, answer);
	}
}

type ShownPage = Omit<Page, 'kind' | 'place'> & {readonly place?: Page['place']};

function sendPage(
	request: FastifyRequest,
	reply: FastifyReply,
	{assets, random, paths}: PageTools,
	visitor: Visitor | null,
	{place = null, title, actions = nothing, problem = null, status, retryAfter, content, charts}: ShownPage,
): FastifyReply {
	const nonce = random(nonceLength).toString('base64');
	const notice = request.cookies[noticeCookie] ?? null;
	if (notice !== null) {
		reply.clearCookie(noticeCookie, cookieOptions(request));
	}
	if (retryAfter !== undefined) {
		reply.header('retry-after', Math.ceil(retryAfter));
	}
	const token = reply.generateCsrf({userInfo: formOwner(visitor), ...cookieOptions(request)});
	const markup = layout({
		title,
		place,
		actions,
		problem,
		content,
		notice,
		visitor,
		nonce,
		token,
		assets,
		hasCharts: charts ?? false,
	});
	return reply
		.code(status ?? (problem === null ? 200 : 422))
		.type('text/html; charset=utf-8')
		.header('content-security-policy', toPolicy(nonce))
		.send(paths.inMarkup(markup, visitor?.workspace ?? null));
}

/** Mail is shown in frames of this origin, which have a stricter policy of their own. */
function toPolicy(nonce: string): string {
	return [
		"default-src 'none'",
		`script-src 'nonce-${nonce}'`,
		`style-src 'nonce-${nonce}'`,
		"img-src 'self' data:",
		"connect-src 'self'",
		"frame-src 'self'",
		"form-action 'self'",
		"frame-ancestors 'none'",
		"base-uri 'none'",
	].join('; ');
}
