import {boolean, token} from '../parsers.ts';
import {optional, setting} from '../setting.ts';
import {hidden, issuer} from '../urls.ts';

/** The pages for people, and how they log in other than by passkey and password. */
export const dashboard = {
	dashboard: setting(
		'MAILCTL_DASHBOARD',
		'true',
		boolean,
		'Serve the dashboard on MAILCTL_ADMIN_LISTEN; `false`: its pages answer 404.',
	),
	oidcIssuer: optional(
		'MAILCTL_OIDC_ISSUER',
		'–',
		issuer,
		'OpenID Connect provider by which users log in too, such as `https://login.example.com` (docs/guide/users.md).',
	),
	oidcClientId: optional(
		'MAILCTL_OIDC_CLIENT_ID',
		'–',
		token,
		'What the provider of MAILCTL_OIDC_ISSUER calls this program.',
	),
	oidcClientSecret: optional(
		'MAILCTL_OIDC_CLIENT_SECRET',
		'none, for a public client',
		token,
		'The secret that goes with MAILCTL_OIDC_CLIENT_ID.',
		{mask: hidden},
	),
};
