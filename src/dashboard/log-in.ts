import {type Html, html} from '../hosted/html.ts';
import type {LogIn} from '../resources/users/log-in.ts';
import {toOperator} from '../resources/users/rules.ts';
import type {Proof} from '../resources/users/sessions.ts';
import {findUser, type User} from '../resources/users/store.ts';
import {act, hidden, input, nothing, section, toHref} from './markup.ts';
import type {DashboardParts} from './parts.ts';
import {
	clientOf,
	codeField,
	newPasskey,
	newPassword,
	parsePasskey,
	passkeyForm,
	passwordField,
	siteOf,
	toProblem,
	unencrypted,
	wayBack,
} from './proof.ts';
import {go, type Knock, type OpenAnswer, type OpenRoute, type Page} from './route.ts';
import {csrfCookie} from './visitor.ts';

type Knocked = (knock: Knock) => Promise<OpenAnswer>;
type Failed = Exclude<LogIn, {readonly ok: true}>;

const wrongLink = {ok: false, reason: 'wrong'} as const;

/** Logging in and out, and proving again who one is. */
export function logInPages(parts: DashboardParts): readonly OpenRoute[] {
	const {sessions, reader, logIn, passkeys} = parts;

	/** The forms to log in by; `failed`: what was wrong with the last attempt. */
	async function logInPage(knock: Knock, failed?: Failed, wrong = ''): Promise<OpenAnswer> {
		const {query, form, request} = knock;
		const said = failed ? toProblem(failed, wrong) : {};
		const here = {kind: 'page', place: null, title: 'Log in', ...said} as const;
		if (failed && 'pending' in failed) {
			return {...here, content: codeForm(toHref('/login/code', query), failed.pending)};
		}
		const site = siteOf(request);
		const asked = site && (await passkeys.createLoginRequest(site, null));
		const email = {
			name: 'email',
			label: 'E-mail',
			type: 'email',
			required: true,
			autocomplete: 'username',
		} as const;
		const fields = html`${input({...email, value: form.get('email') ?? ''})}${passwordField}`;
		const content = html`<div class="card">${act({to: toHref('/login', query), label: 'Log in', fields})}</div>
${asked && passkeyForm('get', asked, {to: toHref('/login/passkey', query), label: 'Log in with a passkey'})}
${singleSignOn(parts, '/login/oidc', query)}
<p class="soft">No password yet, or lost it? <code>mailctl user link EMAIL</code> prints a link that logs in once.</p>`;
		return {...here, content};
	}

	async function enter({request, query}: Knock, user: User, by: Proof): Promise<OpenAnswer> {
		return {...go(wayBack(query)), session: await sessions.start(user, {...clientOf(request), by})};
	}

	/** Only over encrypted connections, or on this machine. */
	const guarded =
		(answer: Knocked): Knocked =>
		async knock =>
			unencrypted(knock.request) ?? (await answer(knock));

	const tryPassword = ({form, request}: Knock, email = form.get('email') ?? '') =>
		logIn.logIn({email, password: form.get('password') ?? '', address: request.ip});

	const tryCode = ({form, request}: Knock) =>
		logIn.enterCode({pending: form.get('pending') ?? '', code: form.get('code') ?? '', address: request.ip});

	async function tryPasskey({form, request}: Knock): Promise<LogIn> {
		const site = siteOf(request);
		return site === null
			? {ok: false, reason: 'wrong'}
			: await passkeys.logIn({...parsePasskey(form), site, address: request.ip});
	}

	/** Who opened a link is its user; there they choose what to log in by the next time. */
	async function openLink(knock: Knock): Promise<OpenAnswer> {
		const {params, request} = knock;
		// What only looks ahead must not use the link up.
		const isLooking =
			request.method === 'HEAD' || /prefetch|preview/.test(String(request.headers['sec-purpose'] ?? ''));
		const {token = ''} = params;
		const result = isLooking ? wrongLink : await logIn.openLink({token, address: request.ip});
		if (!result.ok && result.reason === 'limited') {
			return await logInPage(knock, result);
		}
		if (!result.ok) {
			const content = html`<p>This link was used before, or has ended. <code>mailctl user link EMAIL</code> prints another.</p>
<p><a href="/login">Log in</a></p>`;
			return {kind: 'page', status: 403, place: null, title: 'This link no longer works', content};
		}
		const {user} = result;
		const session = await sessions.start(user, {...clientOf(request), by: 'link'});
		const content = html`<p>You are logged in as ${user.email}. The link works no more, so choose how you log in the next time.</p>
${section('Passkey', await newPasskey(parts, user, request))}
${section('Password', newPassword(user))}
<section><a class="button main" href="/">Go to the messages</a></section>`;
		return {kind: 'page', place: null, title: 'Welcome', content, session};
	}

	/** Proves again who one is, for what wants a fresh log-in. */
	async function confirmPage(knock: Knock, failed?: Failed, wrong = ''): Promise<OpenAnswer> {
		const {query, request, signedIn} = knock;
		if (signedIn === null) {
			return go(toHref('/login', query));
		}
		const said = failed ? toProblem(failed, wrong) : {};
		const here = {kind: 'page', place: null, title: 'Confirm that it is you', ...said} as const;
		if (failed && 'pending' in failed) {
			return {...here, content: codeForm(toHref('/confirm/code', query), failed.pending)};
		}
		const user = await findUser(reader, signedIn.user.id);
		const site = siteOf(request);
		const asked = site && (await passkeys.createLoginRequest(site, signedIn.user.id));
		const byPassword = user?.password_hash
			? html`<div class="card">${act({to: toHref('/confirm', query), label: 'Confirm', fields: passwordField})}</div>`
			: html`<p>You have no password. ${
					asked?.options.allowCredentials?.length
						? nothing
						: html`Get a link with <code>mailctl user link ${signedIn.user.email}</code>, open it, and come back.`
				}</p>`;
		const byPasskey =
			asked?.options.allowCredentials?.length &&
			passkeyForm('get', asked, {to: toHref('/confirm/passkey', query), label: 'Confirm with a passkey'});
		return {
			...here,
			content: html`<p>What you asked for wants a log-in of the last 15 minutes.</p>${byPassword}${byPasskey || null}${singleSignOn(parts, '/confirm/oidc', query)}`,
		};
	}

	const confirming =
		(attempt: (knock: Knock) => Promise<LogIn>, wrong: string): Knocked =>
		async knock => {
			const {signedIn, query} = knock;
			if (signedIn === null) {
				return go(toHref('/login', query));
			}
			const result = await attempt(knock);
			if (!result.ok || result.user.id !== signedIn.user.id) {
				return await confirmPage(knock, result.ok ? {ok: false, reason: 'wrong'} : result, wrong);
			}
			await sessions.confirm(signedIn.sessionId);
			return go(wayBack(query), 'Confirmed. You can go on.');
		};

	const loggingIn =
		(attempt: (knock: Knock) => Promise<LogIn>, by: Proof, wrong: string): Knocked =>
		async knock => {
			const result = await attempt(knock);
			return result.ok ? await enter(knock, result.user, by) : await logInPage(knock, result, wrong);
		};

	const badPassword = 'E-mail or password is wrong.';
	const badCode = 'The log-in took too long. Begin again.';
	const badPasskey = 'This passkey did not work. Try again, or use another way.';
	const post = (path: string, answer: Knocked): OpenRoute => ({method: 'POST', path, answer: guarded(answer)});
	return [
		{
			method: 'GET',
			path: '/login',
			answer: guarded(async knock => (knock.signedIn ? go(wayBack(knock.query)) : await logInPage(knock))),
		},
		{method: 'GET', path: '/login/:token', answer: guarded(openLink)},
		post('/login', loggingIn(tryPassword, 'password', badPassword)),
		post('/login/code', loggingIn(tryCode, 'password', badCode)),
		post('/login/passkey', loggingIn(tryPasskey, 'passkey', badPasskey)),
		{method: 'GET', path: '/confirm', answer: knock => confirmPage(knock)},
		post(
			'/confirm',
			confirming(knock => tryPassword(knock, knock.signedIn?.user.email), 'The password is wrong.'),
		),
		post('/confirm/code', confirming(tryCode, badCode)),
		post('/confirm/passkey', confirming(tryPasskey, badPasskey)),
		{
			method: 'POST',
			path: '/logout',
			async answer({signedIn, request}) {
				if (signedIn) {
					const {sessionId, user} = signedIn;
					await sessions.end(user.id, {id: sessionId}, toOperator(user, request.ip));
				}
				return {...go('/login', 'You are logged out.'), session: null};
			},
		},
	];
}

function codeForm(to: string, pending: string): Html {
	const fields = html`${hidden('pending', pending)}${codeField}`;
	return html`<div class="card">${act({to, label: 'Go on', fields})}</div>`;
}

/** Logging in by an OpenID Connect provider; without one there are no such pages. */
export function singleSignOnPages({oidc, sessions}: DashboardParts): readonly OpenRoute[] {
	if (oidc === null) {
		return [];
	}
	const failed = (problem: string, status = 403): Page => ({
		kind: 'page',
		status,
		place: null,
		title: 'Log in',
		problem,
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
		method: 'GET',
		path,
		answer: async knock => unencrypted(knock.request) ?? (await answer(knock)),
	});
	return [
		get('/login/oidc', knock => begin(knock, false)),
		get('/confirm/oidc', knock => begin(knock, true)),
		// Coming from elsewhere, the browser sends no cookie of ours: from this page it does.
		get('/login/oidc/return', async ({query}) => ({
			kind: 'content',
			type: 'text/html; charset=utf-8',
			body: onward(toHref('/login/oidc/finish', query)).markup,
		})),
		get('/login/oidc/finish', finish),
	];
}

const onward = (to: string) =>
	html`<!doctype html><html lang="en"><head><title>Logging in</title><meta http-equiv="refresh" content="0; url=${to}"></head><body><a href="${to}">Go on</a></body></html>`;

/** The button for the provider, if one is configured. */
function singleSignOn({oidc}: DashboardParts, path: string, query: URLSearchParams): Html {
	return oidc === null
		? nothing
		: html`<p><a class="button" href="${toHref(path, query)}">Log in with ${oidc.name}</a></p>`;
}
