/** Hides the whole value. */
export function hidden(): string {
	return '***';
}

/** Hides what stands between `user:` and the last `@` of a URL's authority, and query parameters named like a password. */
export function maskPassword(url: string): string {
	return url.replace(/(:\/\/[^:@/?#]*):[^/?#]*@/, '$1:***@').replace(/([?&][^=&#]*pass[^=&#]*=)[^&#]*/gi, '$1***');
}

/** As `maskPassword`, for URLs between commas. */
export function maskPasswords(urls: string): string {
	return urls.split(',').map(maskPassword).join(',');
}
