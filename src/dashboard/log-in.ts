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
	returnTarget,
	siteOf,
	toProblem,
	unencrypted,
} from './proof.ts';
import {go, type OpenAnswer, type OpenRoute, type OpenVisit, type Page} from './route.ts';
import {csrfCookie} from './visitor.ts';

type OpenHandler = (knock: OpenVisit) => Promise<OpenAnswer>;
type FailedLogIn = Exclude<LogIn, {readonly ok: true}>;

const invalidLink = {ok: false, reason: 'wrong'} as const;

/** The pages to sign in and out, and to confirm one's identity. */
export function logInPages(parts: DashboardParts): readonly OpenRoute[] {
	const {sessions, reader, logIn, passkeys} = parts;

	/** Shows the forms to sign in, with the error of the last attempt, if it failed. */
	async function logInPage(knock: OpenVisit, failed?: FailedLogIn, message = ''): Promise<OpenAnswer> {
		const {query, form, request} = knock;
		const problem = failed ? toProblem(failed, message) : {};
		const page = {kind: 'page', place: null, title: 'Sign in', ...problem} as const;
		if (failed && 'pending' in failed) {
			return {...page, content: codeForm(toHref('/login/code', query), failed.pending)};
		}
		const site = siteOf(request);
		const passkeyRequest = site && (await passkeys.createLoginRequest(site, null));
		const email = {
			name: 'email',
			label: 'Email',
			type: 'email',
			required: true,
			autocomplete: 'username',
		} as const;
		const fields = html`${input({...email, value: form.get('email') ?? ''})}${passwordField}`;
		const content = html`<div class="card">${act({to: toHref('/login', query), label: 'Sign in', fields})}</div>
${passkeyRequest && passkeyForm('get', passkeyRequest, {to: toHref('/login/passkey', query), label: 'Sign in with a passkey'})}
${singleSignOn(parts, '/login/oidc', query)}
<p class="soft">No password yet, or forgot it? <code>mailctl user link EMAIL</code> prints a one-time sign-in link.</p>`;
		return {...page, content};
	}

	async function startSession({request, query}: OpenVisit, user: User, by: Proof): Promise<OpenAnswer> {
		return {...go(returnTarget(query)), session: await sessions.start(user, {...clientOf(request), by})};
	}

	/** Requires an encrypted connection, or one from this machine. */
	const encrypted =
		(answer: OpenHandler): OpenHandler =>
		async knock =>
			unencrypted(knock.request) ?? (await answer(knock));

	const tryPassword = ({form, request}: OpenVisit, email = form.get('email') ?? '') =>
		logIn.logIn({email, password: form.get('password') ?? '', address: request.ip});

	const tryCode = ({form, request}: OpenVisit) =>
		logIn.enterCode({pending: form.get('pending') ?? '', code: form.get('code') ?? '', address: request.ip});

	async function tryPasskey({form, request}: OpenVisit): Promise<LogIn> {
		const site = siteOf(request);
		return site === null
			? {ok: false, reason: 'wrong'}
			: await passkeys.logIn({...parsePasskey(form), site, address: request.ip});
	}

	/** Signs in the user of a link, and lets them choose how to sign in next time. */
	async function openLink(knock: OpenVisit): Promise<OpenAnswer> {
		const {params, request} = knock;
		// A prefetch must not use up the link.
		const isPrefetch =
			request.method === 'HEAD' || /prefetch|preview/.test(String(request.headers['sec-purpose'] ?? ''));
		const {token = ''} = params;
		const result = isPrefetch ? invalidLink : await logIn.openLink({token, address: request.ip});
		if (!result.ok && result.reason === 'limited') {
			return await logInPage(knock, result);
		}
		if (!result.ok) {
			const content = html`<p>This link was used already or has expired. <code>mailctl user link EMAIL</code> prints a new one.</p>
<p><a href="/login">Sign in</a></p>`;
			return {kind: 'page', status: 403, place: null, title: 'This link no longer works', content};
		}
		const {user} = result;
		const session = await sessions.start(user, {...clientOf(request), by: 'link'});
		const content = html`<p>You are signed in as ${user.email}. This link can’t be used again. Choose how you’ll sign in next time.</p>
${section('Passkey', await newPasskey(parts, user, request))}
${section('Password', newPassword(user))}
<section><a class="button main" href="/">Go to the messages</a></section>`;
		return {kind: 'page', place: null, title: 'Welcome', content, session};
	}

	/** Asks users to confirm their identity, for actions that require a recent login. */
	async function confirmPage(knock: OpenVisit, failed?: FailedLogIn, message = ''): Promise<OpenAnswer> {
		const {query, request, signedIn} = knock;
		if (signedIn === null) {
			return go(toHref('/login', query));
		}
		const problem = failed ? toProblem(failed, message) : {};
		const page = {kind: 'page', place: null, title: 'Confirm your identity', ...problem} as const;
		if (failed && 'pending' in failed) {
			return {...page, content: codeForm(toHref('/confirm/code', query), failed.pending)};
		}
		const user = await findUser(reader, signedIn.user.id);
		const site = siteOf(request);
		const passkeyRequest = site && (await passkeys.createLoginRequest(site, signedIn.user.id));
		const hasPasskey = Boolean(passkeyRequest?.options.allowCredentials?.length);
		const byPassword = user?.password_hash
			? html`<div class="card">${act({to: toHref('/confirm', query), label: 'Confirm', fields: passwordField})}</div>`
			: html`<p>You have no password. ${
					hasPasskey
						? nothing
						: html`Get a link with <code>mailctl user link ${signedIn.user.email}</code>, open it, and come back.`
				}</p>`;
		const byPasskey =
			passkeyRequest &&
			hasPasskey &&
			passkeyForm('get', passkeyRequest, {
				to: toHref('/confirm/passkey', query),
				label: 'Confirm with a passkey',
			});
		return {
			...page,
			content: html`<p>This action requires that you signed in within the last 15 minutes.</p>${byPassword}${byPasskey || null}${singleSignOn(parts, '/confirm/oidc', query)}`,
		};
	}

	const confirming =
		(attempt: (knock: OpenVisit) => Promise<LogIn>, message: string): OpenHandler =>
		async knock => {
			const {signedIn, query} = knock;
			if (signedIn === null) {
				return go(toHref('/login', query));
			}
			const result = await attempt(knock);
			if (!result.ok || result.user.id !== signedIn.user.id) {
				return await confirmPage(knock, result.ok ? {ok: false, reason: 'wrong'} : result, message);
			}
			await sessions.confirm(signedIn.sessionId);
			return go(returnTarget(query), 'Confirmed. You can continue.');
		};

	const signingIn =
		(attempt: (knock: OpenVisit) => Promise<LogIn>, by: Proof, message: string): OpenHandler =>
		async knock => {
			const result = await attempt(knock);
			return result.ok ? await startSession(knock, result.user, by) : await logInPage(knock, result, message);
		};

	const badPassword = 'The e-mail address or password is wrong.';
	const badCode = 'Signing in took too long. Start again.';
	const badPasskey = 'This passkey did not work. Try again, or sign in another way.';
	const post = (path: string, answer: OpenHandler): OpenRoute => ({method: 'POST', path, answer: encrypted(answer)});
	return [
		{
			method: 'GET',
			path: '/login',
			answer: encrypted(async knock => (knock.signedIn ? go(returnTarget(knock.query)) : await logInPage(knock))),
		},
		{method: 'GET', path: '/login/:token', answer: encrypted(openLink)},
		post('/login', signingIn(tryPassword, 'password', badPassword)),
		post('/login/code', signingIn(tryCode, 'password', badCode)),
		post('/login/passkey', signingIn(tryPasskey, 'passkey', badPasskey)),
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
				return {...go('/login', 'You are signed out.'), session: null};
			},
		},
	];
}

function codeForm(to: string, pending: string): Html {
	const fields = html`${hidden('pending', pending)}${codeField}`;
	return html`<div class="card">${act({to, label: 'Continue', fields})}</div>`;
}

/** The pages to sign in with an OpenID Connect provider; none if no provider is configured. */
export function singleSignOnPages({oidc, sessions}: DashboardParts): readonly OpenRoute[] {
	if (oidc === null) {
		return [];
	}
	const failed = (problem: string, status = 403): Page => ({
		kind: 'page',
		status,
		place: null,
		title: 'Sign in',
		problem,
		content: html`<p><a href="/login">Back to sign-in</a></p>`,
	});

	async function begin({request, query, signedIn}: OpenVisit, isConfirmation: boolean): Promise<OpenAnswer> {
		const url = await oidc?.begin({
			returnTo: `${request.protocol}://${request.host}/login/oidc/return`,
			browser: request.cookies[csrfCookie] ?? '',
			to: returnTarget(query),
			sessionId: isConfirmation ? (signedIn?.sessionId ?? null) : null,
		});
		return url ? go(url) : failed(`${oidc?.name} does not respond. Try again, or sign in another way.`, 503);
	}

	async function finish({query, request, signedIn}: OpenVisit): Promise<OpenAnswer> {
		const browser = request.cookies[csrfCookie];
		const result = browser === undefined ? null : await oidc?.finish(query, browser);
		if (!result?.ok) {
			return failed(result?.problem ?? 'The login was started in another browser. Start again.');
		}
		const {user, purpose} = result;
		if (purpose.sessionId === null) {
			return {...go(purpose.to), session: await sessions.start(user, {...clientOf(request), by: 'oidc'})};
		}
		if (signedIn?.user.id !== user.id || signedIn.sessionId !== purpose.sessionId) {
			return failed('You signed in as a different user.');
		}
		await sessions.confirm(signedIn.sessionId);
		return go(purpose.to, 'Confirmed. You can continue.');
	}

	const get = (path: string, answer: OpenRoute['answer']): OpenRoute => ({
		method: 'GET',
		path,
		answer: async knock => unencrypted(knock.request) ?? (await answer(knock)),
	});
	return [
		get('/login/oidc', knock => begin(knock, false)),
		get('/confirm/oidc', knock => begin(knock, true)),
		// The browser sends our cookies only with requests from our own pages, such as this one.
		get('/login/oidc/return', async ({query}) => ({
			kind: 'content',
			type: 'text/html; charset=utf-8',
			body: redirectPage(toHref('/login/oidc/finish', query)).markup,
		})),
		get('/login/oidc/finish', finish),
	];
}

const redirectPage = (to: string) =>
	html`<!doctype html><html lang="en"><head><title>Signing in</title><meta http-equiv="refresh" content="0; url=${to}"></head><body><a href="${to}">Continue</a></body></html>`;

/** Shows the button for the provider, if one is configured. */
function singleSignOn({oidc}: DashboardParts, path: string, query: URLSearchParams): Html {
	return oidc === null
		? nothing
		: html`<p><a class="button" href="${toHref(path, query)}">Sign in with ${oidc.name}</a></p>`;
}
