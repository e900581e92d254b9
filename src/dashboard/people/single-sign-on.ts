import {type Html, html} from '../../hosted/html.ts';
import {hrefOf, nothing} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {go, type Knock, type OpenAnswer, type OpenRoute, type Page} from '../route.ts';
import {csrfCookie} from '../visitor.ts';
import {clientOf, unencrypted, wayBack} from './proof.ts';

/** Logging in by an OpenID Connect provider; without one there are no such pages. */
export function singleSignOnPages({oidc, sessions}: DashboardParts): readonly OpenRoute[] {
	if (oidc === null) {
		return [];
	}
	const failed = (problem: string, status = 403): Page => ({
		...{kind: 'page', status, place: null, title: 'Log in', problem},
		content: html`<p><a href="/login">Back to the log-in</a></p>`,
	});

	async function begin({request, query, signedIn}: Knock, again: boolean): Promise<OpenAnswer> {
		const url = await oidc?.begin({
			returnTo: `${request.protocol}://${request.host}/login/oidc/return`,
			browser: request.cookies[csrfCookie] ?? '',
			to: wayBack(query),
			sessionId: again ? (signedIn?.sessionId ?? null) : null,
		});
		return url ? go(url) : failed(`${oidc?.name} does not answer. Try again, or log in by another way.`, 503);
	}

	async function finish({query, request, signedIn}: Knock): Promise<OpenAnswer> {
		const browser = request.cookies[csrfCookie];
		const result = browser === undefined ? null : await oidc?.finish(query, browser);
		if (!result?.ok) {
			return failed(result?.problem ?? 'The log-in began in another browser. Begin again.');
		}
		const {user, purpose} = result;
		if (purpose.sessionId === null) {
			return {...go(purpose.to), session: await sessions.start(user, {...clientOf(request), by: 'oidc'})};
		}
		if (signedIn?.user.id !== user.id || signedIn.sessionId !== purpose.sessionId) {
			return failed('That was another user.');
		}
		await sessions.confirm(signedIn.sessionId);
		return go(purpose.to, 'Confirmed. You can go on.');
	}

	const get = (path: string, answer: OpenRoute['answer']): OpenRoute => ({
		...{method: 'GET', path},
		answer: async knock => unencrypted(knock.request) ?? (await answer(knock)),
	});
	return [
		get('/login/oidc', knock => begin(knock, false)),
		get('/confirm/oidc', knock => begin(knock, true)),
		// Coming from elsewhere, the browser sends no cookie of ours: from this page it does.
		get('/login/oidc/return', async ({query}) => ({
			kind: 'content',
			type: 'text/html; charset=utf-8',
			body: onward(hrefOf('/login/oidc/finish', query)).markup,
		})),
		get('/login/oidc/finish', finish),
	];
}

const onward = (to: string) =>
	html`<!doctype html><html lang="en"><head><title>Logging in</title><meta http-equiv="refresh" content="0; url=${to}"></head><body><a href="${to}">Go on</a></body></html>`;

/** The button that leads to the provider, where there is one. */
export function singleSignOn({oidc}: DashboardParts, path: string, query: URLSearchParams): Html {
	return oidc === null
		? nothing
		: html`<p><a class="button" href="${hrefOf(path, query)}">Log in with ${oidc.name}</a></p>`;
}
