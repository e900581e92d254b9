import type {IncomingHttpHeaders} from 'node:http';

/** Programs that fetch what stands in a mail whether or not a person looks at it, by what they call themselves. */
const machineAgents: ReadonlyArray<{readonly name: string; readonly pattern: RegExp}> = [
	// The whole of what Apple's proxies say; they fetch every image soon after the delivery.
	{name: 'Apple Mail Privacy Protection', pattern: /^Mozilla\/5\.0$/},
	{name: 'Gmail prefetch', pattern: /Chrome\/42\.0\.2311\.135 Safari\/537\.36 Edge\/12\.246 Mozilla\/5\.0$/},
	// These fetch for a reader or ahead of one, and do not tell which.
	{name: 'Gmail image proxy', pattern: /GoogleImageProxy/i},
	{name: 'Yahoo Mail image proxy', pattern: /YahooMailProxy/i},
	{name: 'mail filter', pattern: /barracuda|proofpoint|mimecast|messagelabs|symantec|ironport|cisco ?secure ?email/i},
	{
		name: 'mail filter',
		pattern: /safe ?links|microsoft defender|forcepoint|forti(?:mail|guard)|sophos|trend ?micro|\bTMES\b/i,
	},
	{name: 'mail filter', pattern: /fireeye|trellix|mcafee|kaspersky|cloudmark|zscaler|vade ?secure|virustotal/i},
	{
		name: 'preview of links',
		pattern: /BingPreview|SkypeUriPreview|Microsoft Office Existence Discovery|Slack-ImgProxy/i,
	},
	{name: 'preview of links', pattern: /facebookexternalhit|WhatsApp\/|GoogleMessages\/|URL Preview/i},
	// Slackbot, Twitterbot, bingbot …; phones of the maker Cubot are none.
	{name: 'robot', pattern: /(?<!cu)bot\b|crawler|spider|scanner|\+https?:\/\//i},
	{name: 'driven browser', pattern: /HeadlessChrome|PhantomJS|Puppeteer|Playwright|Selenium/i},
	{
		name: 'HTTP library',
		pattern: /^(?:curl|wget|python|aiohttp|go-http-client|java\/|apache-httpclient|okhttp|axios|AHC\/)/i,
	},
	{name: 'HTTP library', pattern: /^(?:node|undici|got |libwww|lwp|lua-|ruby|php|guzzle|dart)/i},
];

/** Longer ones are cut, here and in the timeline. */
export const longestAgent = 200;

/** What the client calls itself, cut; null: it does not say. */
export function userAgentOf({'user-agent': agent}: IncomingHttpHeaders): string | null {
	return agent ? agent.slice(0, longestAgent) : null;
}

/**
 * Whether the request is a known machine's. A program without a name is one: mail programs and browsers have one. What a
 * browser fetches ahead says so in `Sec-Purpose`, `Purpose` or `X-Moz`.
 */
export function isMachine(headers: IncomingHttpHeaders): boolean {
	const agent = userAgentOf(headers);
	const purpose = [headers['sec-purpose'], headers.purpose, headers['x-purpose'], headers['x-moz']].join(' ');
	return (
		agent === null ||
		/prefetch|prerender|preview/i.test(purpose) ||
		machineAgents.some(({pattern}) => pattern.test(agent))
	);
}
