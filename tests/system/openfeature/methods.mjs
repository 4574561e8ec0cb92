// The method of an OpenFeature client for a flag whose default is of this type of JavaScript.
export default {
  boolean: "getBooleanDetails",
  string: "getStringDetails",
  number: "getNumberDetails",
  object: "getObjectDetails",
};
