// The settings of an application that `create-next-app` makes.
export default { cacheComponents: true, partialPrefetching: true };
