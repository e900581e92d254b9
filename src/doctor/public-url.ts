import {withoutAdvice} from '../mail/outcome.ts';
import {isLoopbackAddress} from '../net/ip-address.ts';
import {type Check, type CheckResult, fail, ok, warn} from './finding.ts';

const responseLimitMs = 10_000;

type Get = (url: string) => Promise<{readonly status: number; readonly headers: Headers}>;

/** Checks that links in messages reach this server, by https as one-click unsubscribe requires (RFC 8058 §3.1). */
export function publicUrlCheck({
	publicUrl,
	isRunning,
	get = url => fetch(url, {redirect: 'manual', signal: AbortSignal.timeout(responseLimitMs)}),
}: {
	readonly publicUrl: string;
	/** Whether a daemon is running, which should respond there. */
	readonly isRunning: boolean;
	readonly get?: Get;
}): Check {
	return {
		name: 'public-url',
		why: 'Gmail and Yahoo show their unsubscribe button only if https links work; recipients need them too.',
		async run() {
			const {protocol, hostname} = new URL(publicUrl);
			const findings: CheckResult[] = [];
			if (hostname === 'localhost' || isLoopbackAddress(hostname.replace(/^\[|\]$/g, ''))) {
				return [
					fail(
						`links in messages point to ${publicUrl}, which only this machine can reach`,
						'set MAILCTL_PUBLIC_URL',
					),
				];
			}
			if (protocol !== 'https:') {
				findings.push(
					warn(
						`links in messages point to ${publicUrl}`,
						'put an https proxy in front of it and set MAILCTL_PUBLIC_URL',
					),
				);
			}
			findings.push(
				isRunning
					? await checkResponse(publicUrl, get)
					: ok(`${publicUrl}; not requested, because no daemon is running`),
			);
			return findings;
		},
	};
}

/** Requests the page that links point to, not `/healthz`: a proxy may pass only the paths of links and the API. */
async function checkResponse(publicUrl: string, get: Get): Promise<CheckResult> {
	const url = `${publicUrl.replace(/\/+$/, '')}/unsubscribe`;
	try {
		const {status, headers} = await get(url);
		// Without a token the response is an error page; its request id proves that it came from mailctl.
		if (!headers.get('x-request-id')?.startsWith('req_')) {
			return fail(
				`the response of ${url} is not from mailctl (${status})`,
				'let the proxy pass /unsubscribe and /preferences to MAILCTL_HTTP_LISTEN',
			);
		}
		return status < 500
			? ok(`${url} responds`)
			: fail(`${url} responds with ${status}`, 'read the log of the daemon');
	} catch (error) {
		const {message, cause} = error as Error;
		const reason = withoutAdvice(cause instanceof Error ? cause.message : message);
		return warn(
			`${url} could not be reached from here: ${reason}`,
			'open it in a browser on another network; check DNS and the proxy',
		);
	}
}
