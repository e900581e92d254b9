import type {MailFile} from './mail.ts';

// A mail's html is hostile ground. Three walls keep it in, each enough by itself for most of what it may try: the frame and
// its policy (no scripts, no origin, nothing fetched), the policy of the page around it (no other host in frames), and what
// is changed in the html, because browsers look hosts up and connect to them for `<link>` whatever the policy says.

/** The Content-Security-Policy of the answer that a frame shows. */
export function framePolicy({remoteImages}: {readonly remoteImages: boolean}): string {
	return [
		'sandbox',
		"default-src 'none'",
		"style-src 'unsafe-inline'",
		`img-src data:${remoteImages ? ' https: http:' : ''}`,
		"form-action 'none'",
		"base-uri 'none'",
		"frame-ancestors 'self'",
	].join('; ');
}

/**
 * The html for its frame: links lead nowhere, `<link>`, `<base>` and `http-equiv` mean nothing, images that the mail brings
 * along are in it. Each change holds for any text: a tag begins with its name, and of two attributes the first one counts
 * (HTML Standard §13.2.5).
 */
export function framedHtml(html: string, files: readonly MailFile[]): string {
	const dead = html
		.replace(/<(\/?)(link|base)(?=[\s/>])/gi, '<$1x-$2')
		.replace(/\bhttp-equiv\b/gi, 'x-http-equiv')
		.replace(/<(a|area)(?=[\s/>])/gi, '<$1 href="#_"');
	return withImages(dead, files);
}

/** Of these nothing runs and nothing is fetched, whatever their bytes. */
const imageTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']);
/** Characters: an image may be named again and again. */
const mostOfImages = 32 * 1024 * 1024;

function withImages(html: string, files: readonly MailFile[]): string {
	const images = new Map(
		files.flatMap(file => (file.contentId !== null && imageTypes.has(file.type) ? [[file.contentId, file]] : [])),
	);
	const urls = new Map<MailFile, string>();
	let length = 0;
	return html.replace(/\bcid:([^\s"'()<>]{1,256})/gi, (whole, id: string) => {
		const file = images.get(id) ?? images.get(unescaped(id));
		if (file === undefined) {
			return whole;
		}
		const url = urls.get(file) ?? `data:${file.type};base64,${file.content().toString('base64')}`;
		urls.set(file, url);
		length += url.length;
		return length > mostOfImages ? whole : url;
	});
}

function unescaped(id: string): string {
	try {
		return decodeURIComponent(id);
	} catch {
		return id;
	}
}

/** Whether it asks for images of other hosts, as far as that is seen without a browser. */
export function hasRemoteImages(html: string): boolean {
	return /(?:src|srcset|background|poster)\s*=\s*["']?\s*(?:https?:)?\/\/|url\(\s*["']?\s*(?:https?:)?\/\//i.test(html);
}
