#include "xbrt.h"
volatile char a[4040]={1};
int main(void){ a[0]++; void*p=malloc(10); return p==0; }
